"""The losses of a study as curves: means, and lines that coincide."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from remote.record.loss_course import LossCourse
from tui.study import loss_curves
from tui.study.loss_curves import (
    ComparedRuns,
    LossComparison,
    do_coincide,
    join_coinciding,
    make_guess_line,
    make_mean_curve,
    read_comparison,
)


def test_curves_are_means_of_equal_steps_and_those_that_coincide_are_one() -> None:
    short = [(1.0, 2.0), (3.0, 1.0), (5.0, 0.0)]
    long = [(1.0, 4.0), (5.0, 2.0), (9.0, 0.0)]
    curve = make_mean_curve("a", 0, [short, long])
    assert curve
    assert list(curve.x) == [1.0, 3.0, 5.0]
    assert list(curve.mean) == [3.0, 2.0, 1.0]
    assert make_mean_curve("a", 0, [[(1.0, 2.0)]]) is None
    other = make_mean_curve("b", 1, [short])
    assert other
    assert do_coincide(curve, curve)
    assert not do_coincide(curve, other)
    third = make_mean_curve("c", 2, [short, long])
    assert third
    assert [line.label for line in join_coinciding([curve, other, third])] == [
        "a, c (one line)",
        "b",
    ]


@pytest.mark.parametrize(
    ("labels", "joined"),
    [
        (["batch 20"], "batch 20"),
        (["batch 20", "batch 20, split by label"], "batch 20 (also split by label)"),
        (["batch 20", "batch 200"], "batch 20, batch 200 (one line)"),
        (["a", "a, b", "c"], "a, a, b, c (one line)"),
    ],
)
def test_of_settings_with_one_more_only_that_is_named(labels: list[str], joined: str) -> None:
    curves = []
    for label in labels:
        curve = make_mean_curve(label, 0, [[(1, 2.0), (2, 1.0)]])
        assert curve
        curves.append(curve)
    assert [line.label for line in join_coinciding(curves)] == [joined]


SLOW, FAST = [(1.0, 2.3), (5.0, 2.2)], [(1.0, 2.3), (9.0, 0.5)]


@pytest.mark.parametrize(
    ("courses", "same_names", "labels"),
    [
        ((SLOW, SLOW, FAST, FAST), ("ring", "ddp"), ["batch 20", "batch 100"]),
        ((SLOW, SLOW, SLOW, SLOW), ("ring", "ddp"), ["batch 100, batch 20 (one line)"]),
        ((SLOW, FAST, FAST, FAST), (), ["ring", "ddp"]),
        ((SLOW, SLOW, FAST, SLOW), (), ["ring, ddp (one line)"]),
    ],
)
def test_where_all_lines_coincide_those_of_the_places_are_compared(
    monkeypatch: pytest.MonkeyPatch,
    courses: tuple[list[tuple[float, float]], ...],
    same_names: tuple[str, ...],
    labels: list[str],
) -> None:
    monkeypatch.setattr(
        loss_curves, "read_loss_points", lambda folder, _: LossCourse(courses[int(folder.name)])
    )
    places = {
        "batch 100": [ComparedRuns("ring", ["0"]), ComparedRuns("ddp", ["1"])],
        "batch 20": [ComparedRuns("ring", ["2"]), ComparedRuns("ddp", ["3"])],
    }
    comparison = read_comparison(Path(), places["batch 100"], places)
    assert comparison.same_names == same_names
    assert [line.label for line in comparison.curves] == labels
    assert len({line.colour for line in comparison.curves}) == len(labels)


def test_without_runs_there_is_nothing_to_draw() -> None:
    assert read_comparison(Path(), [], {}) == LossComparison("training loss", [])


def test_a_line_of_guesses_is_as_long_as_the_curves_and_has_its_value() -> None:
    curve = make_mean_curve("ring", 0, [[(1, 2.31), (40, 2.28)]])
    assert curve is not None
    guess_line = make_guess_line([curve], 2.3026)
    (level,) = guess_line.curves
    assert (level.x.tolist(), level.mean.tolist()) == ([1.0, 40.0], [2.3026, 2.3026])
    assert [label.text for label in guess_line.labels] == ["guessing 2.30"]
    assert not make_guess_line([curve], math.nan).curves
