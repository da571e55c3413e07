"""The classification report of a confusion matrix: precision, recall, F1 and support of each class,
and their averages.

The figures and the text are those of scikit-learn's `classification_report` with its defaults: a
class that is neither true nor predicted is left out, and where there is nothing to divide by the
figure is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remote.sanitise import one_line

Confusion = Sequence[Sequence[int]]
"""Counts: row is the true class, column the predicted."""
HEAD = ("precision", "recall", "f1-score", "support")


@dataclass(frozen=True)
class Figures:
    """Of one class, or averages over classes. `support` is how many samples are truly of it."""

    precision: float
    recall: float
    f1: float
    support: int

    @classmethod
    def of_class(cls, confusion: Confusion, index: int) -> Figures:
        """Return those of one class."""
        correct = confusion[index][index]
        true = sum(confusion[index])
        predicted = sum(row[index] for row in confusion)
        return cls(
            _ratio(correct, predicted),
            _ratio(correct, true),
            _ratio(2 * correct, true + predicted),
            true,
        )

    @classmethod
    def mean(cls, classes: Sequence[Figures], weights: Sequence[float]) -> Figures:
        """Return the weighted mean over classes."""

        def mean(of: Callable[[Figures], float]) -> float:
            return _ratio(
                sum(weight * of(one) for weight, one in zip(weights, classes, strict=True)),
                sum(weights),
            )

        return cls(
            mean(lambda one: one.precision),
            mean(lambda one: one.recall),
            mean(lambda one: one.f1),
            sum(one.support for one in classes),
        )

    def object(self) -> dict[str, Any]:
        """By scikit-learn's names."""
        return dict(zip(HEAD, (self.precision, self.recall, self.f1, self.support), strict=True))


@dataclass(frozen=True)
class Report:
    """`classes` by name. `macro` is the plain mean over them, `weighted` that by their support;
    `accuracy` is a fraction."""

    classes: dict[str, Figures]
    accuracy: float
    macro: Figures
    weighted: Figures

    @classmethod
    def of(cls, confusion: Confusion, names: Sequence[str] = ()) -> Report:
        """Return the report of a confusion matrix with at least one sample; classes without names
        are called by their numbers."""
        seen = [
            index
            for index, row in enumerate(confusion)
            if any(row) or any(other[index] for other in confusion)
        ]
        called = names if len({*names}) == len(confusion) else range(len(confusion))
        classes = {str(called[index]): Figures.of_class(confusion, index) for index in seen}
        support = [one.support for one in classes.values()]
        correct = sum(confusion[index][index] for index in seen)
        return cls(
            classes,
            _ratio(correct, sum(support)),
            Figures.mean(list(classes.values()), [1] * len(classes)),
            Figures.mean(list(classes.values()), support),
        )

    def object(self) -> dict[str, Any]:
        """JSON-ready, as scikit-learn's `output_dict`."""
        averages = {
            "accuracy": self.accuracy,
            "macro avg": self.macro.object(),
            "weighted avg": self.weighted.object(),
        }
        return {name: figures.object() for name, figures in self.classes.items()} | averages

    def text(self) -> str:
        """Return the table to read."""
        classes = [(one_line(name), figures) for name, figures in self.classes.items()]
        width = max(map(len, (*dict(classes), "weighted avg")))
        rows = [_row(name, width, figures) for name, figures in classes]
        accuracy = f"{'accuracy':>{width}} {'':>20} {self.accuracy:>9.2f} {self.macro.support:>9}"
        return "\n".join(
            (
                f"{'':>{width}}  {' '.join(f'{word:>9}' for word in HEAD)}\n",
                *rows,
                "",
                accuracy,
                _row("macro avg", width, self.macro),
                _row("weighted avg", width, self.weighted),
                "",
            )
        )


def matrix(confusion: Confusion, names: Sequence[str] = ()) -> str:
    """Return a confusion matrix to read, with the numbers of the classes, and what they are
    called."""
    width = max(len(str(cell)) for row in (range(len(confusion)), *confusion) for cell in row) + 1
    left = len(str(len(confusion)))
    head = " " * left + "".join(f"{index:>{width}}" for index in range(len(confusion)))
    called = (
        [f"  {one_line(name)}" for name in names]
        if len(names) == len(confusion)
        else [""] * len(confusion)
    )
    rows = (
        f"{index:>{left}}{''.join(f'{cell:>{width}}' for cell in row)}{name}"
        for index, (row, name) in enumerate(zip(confusion, called, strict=True))
    )
    return "\n".join((head, *rows, ""))


def _row(name: str, width: int, figures: Figures) -> str:
    return (
        f"{name:>{width}}  {figures.precision:>9.2f} {figures.recall:>9.2f} {figures.f1:>9.2f} "
        f"{figures.support:>9}"
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
