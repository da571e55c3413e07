"""The classification report of a confusion matrix: precision, recall, F1 and support of each class,
and their averages.

The figures and the text are those of scikit-learn's `classification_report` with its defaults: a
class that is neither true nor predicted is left out, and if there is nothing to divide by, the
figure is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.formatting import format_loss

Confusion = Sequence[Sequence[int]]
"""Counts: row is the true class, column the predicted."""
HEAD = ("precision", "recall", "f1-score", "support")


@dataclass(frozen=True)
class ClassFigures:
    """The figures of one class, or averages over classes."""

    precision: float
    recall: float
    f1: float
    support: int
    """How many samples are truly of the class."""

    @classmethod
    def of_class(cls, confusion: Confusion, index: int) -> ClassFigures:
        """Return those of one class."""
        correct = confusion[index][index]
        true = sum(confusion[index])
        predicted = sum(row[index] for row in confusion)
        return cls(
            _divide(correct, predicted),
            _divide(correct, true),
            _divide(2 * correct, true + predicted),
            true,
        )

    @classmethod
    def average(cls, classes: Sequence[ClassFigures], weights: Sequence[float]) -> ClassFigures:
        """Return the weighted mean over classes."""
        return cls(
            _weighted_mean([figures.precision for figures in classes], weights),
            _weighted_mean([figures.recall for figures in classes], weights),
            _weighted_mean([figures.f1 for figures in classes], weights),
            sum(figures.support for figures in classes),
        )

    def to_object(self) -> dict[str, Any]:
        """Return the figures by scikit-learn's names."""
        return dict(zip(HEAD, (self.precision, self.recall, self.f1, self.support), strict=True))


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
        has_names = len(set(names)) == len(confusion)
        classes = dict[str, ClassFigures]()
        correct = 0
        for index, row in enumerate(confusion):
            if any(row) or any(other[index] for other in confusion):
                name = names[index] if has_names else str(index)
                classes[name] = ClassFigures.of_class(confusion, index)
                correct += row[index]
        all_figures = list(classes.values())
        support = [figures.support for figures in all_figures]
        return cls(
            classes,
            _divide(correct, sum(support)),
            ClassFigures.average(all_figures, [1] * len(classes)),
            ClassFigures.average(all_figures, support),
        )

    def to_object(self) -> dict[str, Any]:
        """Return the report as scikit-learn's `output_dict`."""
        by_class = {name: figures.to_object() for name, figures in self.classes.items()}
        return {
            **by_class,
            "accuracy": self.accuracy,
            "macro avg": self.macro.to_object(),
            "weighted avg": self.weighted.to_object(),
        }

    def text(self) -> str:
        """Return the table to read."""
        classes = [(one_line(name), figures) for name, figures in self.classes.items()]
        width = max(len(name) for name in (*dict(classes), "weighted avg"))
        head = " ".join(f"{word:>9}" for word in HEAD)
        lines = [f"{'':>{width}}  {head}", ""]
        lines += [_format_row(name, width, figures) for name, figures in classes]
        lines += [
            "",
            f"{'accuracy':>{width}} {'':>20} {self.accuracy:>9.2f} {self.macro.support:>9}",
            _format_row("macro avg", width, self.macro),
            _format_row("weighted avg", width, self.weighted),
            "",
        ]
        return "\n".join(lines)


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


def _format_row(name: str, width: int, figures: ClassFigures) -> str:
    return (
        f"{name:>{width}}  {figures.precision:>9.2f} {figures.recall:>9.2f} {figures.f1:>9.2f} "
        f"{figures.support:>9}"
    )


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    weighted = [weight * value for weight, value in zip(weights, values, strict=True)]
    return _divide(sum(weighted), sum(weights))


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
