"""The classification report of a confusion matrix: precision, recall, F1 and support of each class,
and their averages.

The figures and the text are those of scikit-learn's `classification_report` with its defaults: a
class that is neither true nor predicted is left out, and if there is nothing to divide by, the
figure is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.formatting import format_loss

Confusion = Sequence[Sequence[int]]
"""Counts: row is the true class, column the predicted."""
HEAD = ("precision", "recall", "f1-score", "support")
HEAD_ROW = "{:>{width}}  {:>9} {:>9} {:>9} {:>9}"
CLASS_ROW = "{:>{width}}  {:>9.2f} {:>9.2f} {:>9.2f} {:>9}"
ACCURACY_ROW = "{:>{width}} {:>20} {:>9.2f} {:>9}"


class ClassFigures(NamedTuple):
    """The figures of one class, or averages over classes, in the order of `HEAD`."""

    precision: float
    recall: float
    f1: float
    support: int
    """How many samples are truly of the class."""

    def to_object(self) -> dict[str, Any]:
        """Return the figures by scikit-learn's names."""
        return dict(zip(HEAD, self, strict=True))


@dataclass(frozen=True)
class ClassificationReport:
    """The figures of all classes."""

    classes: dict[str, ClassFigures]
    """By the names of the classes."""
    accuracy: float
    """A fraction."""
    macro: ClassFigures
    """The plain mean over the classes."""
    weighted: ClassFigures
    """Their mean, weighted by support."""

    @classmethod
    def of(cls, confusion: Confusion, names: Sequence[str] = ()) -> ClassificationReport:
        """Return the report of a confusion matrix with at least one sample; classes without names
        are called by their numbers."""
        if len(set(names)) != len(confusion):
            names = list(map(str, range(len(confusion))))
        classes = dict[str, ClassFigures]()
        all_correct = 0
        for index, row in enumerate(confusion):
            predicted = sum(other[index] for other in confusion)
            total = sum(row) + predicted
            if total:
                correct = row[index]
                all_correct += correct
                precision = _divide(correct, predicted)
                recall = _divide(correct, sum(row))
                f1 = 2 * correct / total
                classes[names[index]] = ClassFigures(precision, recall, f1, sum(row))
        support = [figures.support for figures in classes.values()]
        accuracy = _divide(all_correct, sum(support))
        equal_weights = [1] * len(classes)
        return cls(classes, accuracy, _average(classes, equal_weights), _average(classes, support))

    def to_object(self) -> dict[str, Any]:
        """Return the report as scikit-learn's `output_dict`."""
        report: dict[str, Any] = {
            name: figures.to_object() for name, figures in self.classes.items()
        }
        report["accuracy"] = self.accuracy
        report["macro avg"] = self.macro.to_object()
        report["weighted avg"] = self.weighted.to_object()
        return report

    def text(self) -> str:
        """Return the table to read."""
        names = [one_line(name) for name in self.classes]
        width = max(map(len, (*names, "weighted avg")))
        lines = [HEAD_ROW.format("", *HEAD, width=width), ""]
        for name, figures in zip(names, self.classes.values(), strict=True):
            lines.append(CLASS_ROW.format(name, *figures, width=width))
        return "\n".join(
            [
                *lines,
                "",
                ACCURACY_ROW.format("accuracy", "", self.accuracy, self.macro.support, width=width),
                CLASS_ROW.format("macro avg", *self.macro, width=width),
                CLASS_ROW.format("weighted avg", *self.weighted, width=width),
                "",
            ]
        )


def format_last_report(state: RunState) -> str:
    """Return the classification report and the confusion matrix of a run's last evaluation, to
    read; "" if there is no matrix."""
    last = state.progress.evaluations[-1] if state.progress.evaluations else None
    if last is None or not last.confusion:
        return ""
    result = (
        f"test loss {format_loss(last.loss)}, test accuracy {last.accuracy:.2%}, {last.samples} "
        "samples"
    )
    lines = [
        f"{state.plan.run} after epoch {last.epoch}, step {last.step}: {result}",
        "",
        ClassificationReport.of(last.confusion, last.classes).text(),
        "confusion matrix: row is the true class, column the predicted",
        "",
        format_matrix(last.confusion, last.classes),
    ]
    return "\n".join(lines)


def format_matrix(confusion: Confusion, names: Sequence[str] = ()) -> str:
    """Return a confusion matrix to read, with the numbers of the classes, and what they are
    called."""
    size = len(confusion)
    cells = [cell for row in (range(size), *confusion) for cell in row]
    width = max(len(str(cell)) for cell in cells) + 1
    margin = len(str(size))
    lines = [" " * margin + _format_cells(range(size), width)]
    for index, row in enumerate(confusion):
        name = f"  {one_line(names[index])}" if len(names) == size else ""
        lines.append(f"{index:>{margin}}{_format_cells(row, width)}{name}")
    lines.append("")
    return "\n".join(lines)


def _format_cells(cells: Sequence[int], width: int) -> str:
    return "".join(f"{cell:>{width}}" for cell in cells)


def _average(classes: Mapping[str, ClassFigures], weights: Sequence[float]) -> ClassFigures:
    """Return the weighted mean over classes."""
    sums = [0.0, 0.0, 0.0]
    for weight, figures in zip(weights, classes.values(), strict=True):
        for column in range(3):
            sums[column] += weight * figures[column]
    precision, recall, f1 = (_divide(part, sum(weights)) for part in sums)
    return ClassFigures(precision, recall, f1, sum(one.support for one in classes.values()))


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
