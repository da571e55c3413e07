"""The classification report is scikit-learn's, figure by figure and letter by letter.

Only the tests import it: that takes longer than all of them.
"""

from __future__ import annotations

import random
import re
import warnings

import pytest

from remote.record.classification import ClassificationReport, Confusion, format_matrix


def predictions(
    classes: int, samples: int, seed: int, true: range | None = None
) -> tuple[list[int], list[int]]:
    """True and predicted labels, right about half of the time."""
    dice = random.Random(seed)
    labels = [dice.choice(true or range(classes)) for _ in range(samples)]
    return labels, [label if dice.random() < 0.5 else dice.randrange(classes) for label in labels]


CASES = {
    "ten": (10, predictions(10, 1_000, 1)),
    "one sample": (10, ([3], [3])),
    "one that is wrong": (3, ([2], [0])),
    "never predicted": (3, ([0, 1, 2, 2], [0, 1, 1, 0])),
    "never true": (3, ([0, 1, 1, 0], [0, 1, 2, 2])),
    "left out": (6, predictions(4, 50, 2, range(1, 3))),
    "all wrong": (2, ([0, 1], [1, 0])),
    "hundred": (100, predictions(100, 700, 3)),
    "large": (2, predictions(2, 30_000, 4)),
}


def counted(classes: int, labels: list[int], guesses: list[int]) -> Confusion:
    from sklearn.metrics import confusion_matrix

    table: list[list[int]] = confusion_matrix(labels, guesses, labels=range(classes)).tolist()
    return table


@pytest.mark.parametrize("name", CASES)
def test_it_is_scikit_learns(name: str) -> None:
    from sklearn.exceptions import UndefinedMetricWarning
    from sklearn.metrics import classification_report

    classes, (labels, guesses) = CASES[name]
    report = ClassificationReport.of(counted(classes, labels, guesses))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        expected, text = (
            classification_report(labels, guesses, output_dict=as_dict) for as_dict in (True, False)
        )
    found = report.to_object()
    assert list(found) == list(expected)
    for key, figures in expected.items():
        assert found[key] == (
            pytest.approx(figures, rel=1e-12)
            if key == "accuracy"
            else pytest.approx(dict(figures), rel=1e-12)
        )
    # Where nothing at all is right, scikit-learn writes counts as 2.0.
    assert report.text() == re.sub(r"(  *)(\d+)\.0$", r"\1  \2", text, flags=re.MULTILINE)


def test_the_formulas() -> None:
    """By hand: of class 0, 3 of 4 guesses are right and 3 of 5 samples are found."""
    figures = ClassificationReport.of([[3, 2], [1, 4]]).classes["0"]
    assert (figures.precision, figures.recall, figures.support) == (3 / 4, 3 / 5, 5)
    assert figures.f1 == pytest.approx(2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5))


def test_classes_are_called_by_their_names() -> None:
    from sklearn.metrics import classification_report

    confusion = [[2, 0, 1], [0, 0, 0], [0, 0, 1]]
    names = ("cat", "dog", "two\nlines")
    report = ClassificationReport.of(confusion, names)
    assert list(report.classes) == ["cat", "two\nlines"], "of a dog there is nothing"
    labels, guesses = [0, 0, 0, 2], [0, 0, 2, 2]
    called = ("cat", "two lines")
    assert report.text() == classification_report(labels, guesses, target_names=called)
    assert (
        format_matrix(confusion, names)
        == "  0 1 2\n0 2 0 1  cat\n1 0 0 0  dog\n2 0 0 1  two lines\n"
    )
    assert list(ClassificationReport.of(confusion, names[:2]).classes) == ["0", "2"], (
        "names of something else"
    )


def test_the_matrix_is_aligned() -> None:
    assert format_matrix([[10, 2], [0, 7]]) == "   0  1\n0 10  2\n1  0  7\n"
    lines = format_matrix([[1] * 11] * 11).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines) == 12
