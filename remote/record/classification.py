"""The classification report of a confusion matrix: precision, recall, F1 and support of each class,
and their averages.

The figures and the text are those of scikit-learn's `classification_report` with its defaults: a
class that is neither true nor predicted is left out, and if there is nothing to divide by, the
figure is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

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


class ClassificationReport(Struct, frozen=True):
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
    def of(cls, confusion: Confusion, class_names: Sequence[str] = ()) -> ClassificationReport:
        """Return the report of a confusion matrix with at least one sample; classes without names
        are called by their numbers."""
        if len(set(class_names)) != len(confusion):
            class_names = list(map(str, range(len(confusion))))
        classes = dict[str, ClassFigures]()
        all_correct = 0
        for index, row in enumerate(confusion):
            predicted_count = sum(other_row[index] for other_row in confusion)
            double_total = sum(row) + predicted_count
            if double_total:
                correct_count = row[index]
                all_correct += correct_count
                precision = _divide(correct_count, predicted_count)
                recall = _divide(correct_count, sum(row))
                # The harmonic mean of the two, without a division by 0 where both are 0.
                f1 = 2 * correct_count / double_total
                classes[class_names[index]] = ClassFigures(precision, recall, f1, sum(row))
        supports = [figures.support for figures in classes.values()]
        accuracy = _divide(all_correct, sum(supports))
        equal_weights = [1] * len(classes)
        return cls(classes, accuracy, _average(classes, equal_weights), _average(classes, supports))

    def to_object(self) -> dict[str, Any]:
        """Return the report as scikit-learn's `output_dict`."""
        report: dict[str, Any] = {
            class_name: figures.to_object() for class_name, figures in self.classes.items()
        }
        report["accuracy"] = self.accuracy
        report["macro avg"] = self.macro.to_object()
        report["weighted avg"] = self.weighted.to_object()
        return report

    def text(self) -> str:
        """Return the table to read."""
        class_names = [one_line(class_name) for class_name in self.classes]
        name_width = max(map(len, (*class_names, "weighted avg")))
        table_lines = [HEAD_ROW.format("", *HEAD, width=name_width), ""]
        for class_name, figures in zip(class_names, self.classes.values(), strict=True):
            table_lines.append(CLASS_ROW.format(class_name, *figures, width=name_width))
        return "\n".join(
            [
                *table_lines,
                "",
                ACCURACY_ROW.format(
                    "accuracy", "", self.accuracy, self.macro.support, width=name_width
                ),
                CLASS_ROW.format("macro avg", *self.macro, width=name_width),
                CLASS_ROW.format("weighted avg", *self.weighted, width=name_width),
                "",
            ]
        )


def format_last_report(state: RunState) -> str:
    """Return the classification report and the confusion matrix of a run's last evaluation, to
    read; "" if there is no matrix."""
    last_evaluation = state.progress.evaluations[-1] if state.progress.evaluations else None
    if last_evaluation is None or not last_evaluation.confusion:
        return ""
    loss_text = f"test loss {format_loss(last_evaluation.loss)}"
    accuracy_text = f"test accuracy {last_evaluation.accuracy:.1%}"
    result_text = f"{loss_text}, {accuracy_text}, {last_evaluation.samples} samples"
    moment_text = f"after epoch {last_evaluation.epoch}, step {last_evaluation.step}"
    report_lines = [
        f"{state.plan.run} {moment_text}: {result_text}",
        "",
        ClassificationReport.of(last_evaluation.confusion, last_evaluation.classes).text(),
        "confusion matrix: row is the true class, column the predicted",
        "",
        format_matrix(last_evaluation.confusion, last_evaluation.classes),
    ]
    return "\n".join(report_lines)


def format_matrix(confusion: Confusion, class_names: Sequence[str] = ()) -> str:
    """Return a confusion matrix to read, with the numbers of the classes, and what they are
    called."""
    class_count = len(confusion)
    cells = [cell for row in (range(class_count), *confusion) for cell in row]
    cell_width = max(len(str(cell)) for cell in cells) + 1
    number_width = len(str(class_count))
    matrix_lines = [" " * number_width + _format_cells(range(class_count), cell_width)]
    for index, row in enumerate(confusion):
        class_label = f"  {one_line(class_names[index])}" if len(class_names) == class_count else ""
        matrix_lines.append(f"{index:>{number_width}}{_format_cells(row, cell_width)}{class_label}")
    matrix_lines.append("")
    return "\n".join(matrix_lines)


def _format_cells(cells: Sequence[int], width: int) -> str:
    return "".join(f"{cell:>{width}}" for cell in cells)


def _average(classes: Mapping[str, ClassFigures], weights: Sequence[float]) -> ClassFigures:
    """Return the weighted mean over classes."""
    weighted_sums = [0.0, 0.0, 0.0]
    for weight, figures in zip(weights, classes.values(), strict=True):
        for column in range(3):
            weighted_sums[column] += weight * figures[column]
    precision, recall, f1 = (_divide(weighted_sum, sum(weights)) for weighted_sum in weighted_sums)
    return ClassFigures(
        precision, recall, f1, sum(class_figures.support for class_figures in classes.values())
    )


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
