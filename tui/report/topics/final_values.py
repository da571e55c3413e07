"""Final losses and accuracies: do all groups train the same model, and did they learn at all?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from remote.run.state.progress import not_learned
from remote.statistics.equivalence import Equivalence, measure_equivalence
from remote.statistics.interval import Interval, ValueScale, hide_few, mean_interval
from tui.report.document import Section, make_table
from tui.report.formatting import (
    SAME,
    TOO_FEW,
    format_bounds,
    format_difference,
    format_extent,
    format_final,
)
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

CLOSE = 0.01
"""Share of the loss, or part of the accuracy, within which values are called equal."""
HEAD = ("cell", "95% interval", "compared with", "difference", "finding")
NOT_EQUAL = "not shown to be equal"
NOTE = (
    "Difference: mean over repetitions, which share their seed. Equal within X: the 90% interval "
    "of the difference lies within X, which is two one-sided tests at 5%, and X is at most 1% of "
    "the loss, or 1 point of the accuracy."
)


@dataclass(frozen=True)
class FinalValue:
    """A value that a run has at its end."""

    name: str
    of: Callable[[RunFigures], float]
    is_known: Callable[[RunFigures], bool]
    """Return True if the run has such a value, which is NaN if the run has diverged."""
    is_share: bool = False

    def write(self, value: float) -> str:
        """Write such a value."""
        return format_final(value, is_share=self.is_share)


@dataclass(frozen=True)
class GroupFinal:
    """A final value of a group, and how it compares with that of its reference."""

    group: RunGroup
    value: Interval
    against: Equivalence | None
    reference: str = ""

    def equality(self, final: FinalValue) -> str:
        """Return how close it is: "equal within rounding", "equal within 0.012".

        What may differ by more than `CLOSE` is not called equal.
        """
        if self.against is None:
            return UNKNOWN
        if self.against.is_same:
            return SAME
        smallest_margin = self.against.within
        if math.isnan(smallest_margin):
            return TOO_FEW
        largest_margin = CLOSE if final.is_share else CLOSE * abs(self.value.value)
        if smallest_margin > largest_margin:
            return NOT_EQUAL
        return f"equal within {format_extent(smallest_margin, is_share=final.is_share)}"


def _last_test(name: str) -> Callable[[RunFigures], float]:
    def read(run: RunFigures) -> float:
        return getattr(run.evaluations[-1], name) if run.evaluations else math.nan

    return read


def _is_tested(run: RunFigures) -> bool:
    return bool(run.evaluations)


def _read_training_loss(run: RunFigures) -> float:
    return math.nan if run.training_loss is None else run.training_loss


def _has_steps(run: RunFigures) -> bool:
    return len(run.steps) > 0


TRAINING_LOSS = FinalValue("training loss", _read_training_loss, _has_steps)
TEST_LOSS = FinalValue("test loss", _last_test("loss"), _is_tested)
ACCURACY = FinalValue("test accuracy", _last_test("accuracy"), _is_tested, is_share=True)
VERDICT_VALUES = (TRAINING_LOSS, ACCURACY)
"""The values that the verdict tells."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a table per final value; None if there is nothing to compare."""
    value_tables = []
    for final in (TRAINING_LOSS, TEST_LOSS, ACCURACY):
        group_finals = compare_finals(subject, final)
        if any(row.against for row in group_finals):
            table_head = (HEAD[0], final.name, *HEAD[1:])
            table_rows = [_row(final, row) for row in group_finals]
            value_tables.append(make_table(f"Final {final.name}", table_head, table_rows, NOTE))
    if not value_tables:
        return None
    paragraphs = [f"{sentence}." for sentence in describe_equality(subject)]
    return Section("equality", "The same result?", paragraphs, value_tables)


# Did it learn? ------------------------------------------------------------------------------------


def loss_ends(runs: Iterable[RunFigures]) -> list[tuple[str, float, float]]:
    """Return the name, the first and the last training loss of each run that has steps."""
    named_ends = []
    for run in runs:
        _, _, losses = run.loss_course()
        if losses.size:
            named_ends.append((run.name, float(losses[0]), float(losses[-1])))
    return named_ends


def has_learned(group: RunGroup) -> bool:
    """Return True if no run of a group diverged, or had a loss that rose."""
    has_diverged = any(run.has_diverged for run in group.runs)
    return not has_diverged and not not_learned(loss_ends(group.runs))


# Is it the same? ----------------------------------------------------------------------------------


def compare_finals(subject: ReportSubject, final: FinalValue) -> list[GroupFinal]:
    """Compare the groups that have this value with their references."""
    group_finals = []
    for group in subject.groups:
        run_values = [final.of(run) for run in group.runs]
        if not np.isfinite(run_values).any():
            continue
        equivalence = None
        reference = subject.reference_of(group)
        if reference and reference.by_repetition:
            equivalence = _compare_repetitions(group, reference, final)
        mean_value = hide_few(mean_interval(run_values, ValueScale.DIFFERENCE))
        group_finals.append(
            GroupFinal(group, mean_value, equivalence, reference.label if reference else "")
        )
    return group_finals


def _compare_repetitions(group: RunGroup, reference: RunGroup, final: FinalValue) -> Equivalence:
    """Compare repetition by repetition: they share their seed."""
    repetitions = sorted({*group.by_repetition, *reference.by_repetition})
    value_columns = []
    for runs in (group.by_repetition, reference.by_repetition):
        # A repetition that one of the two lacks counts in neither.
        value_columns.append(
            [
                final.of(runs[repetition]) if repetition in runs else math.nan
                for repetition in repetitions
            ]
        )
    result = measure_equivalence(*value_columns)
    return replace(result, difference=hide_few(result.difference))


def describe_equality(subject: ReportSubject) -> list[str]:
    """Return what is known of final training losses and accuracies, a sentence each.

    Models that did not learn may well be equal: that is not worth a sentence.
    """
    if not all(map(has_learned, subject.measured)):
        return []
    sentences = [_describe(final, compare_finals(subject, final)) for final in VERDICT_VALUES]
    return list(filter(None, sentences))


def _describe(final: FinalValue, rows: list[GroupFinal]) -> str:
    """Return how close the values of all rows are in words; "" if that is not known."""
    equivalences = [row.against for row in rows if row.against]
    equalities = {row.equality(final) for row in rows if row.against}
    if not equivalences or TOO_FEW in equalities:
        return ""
    beginning = f"The final {final.name} is"
    if equalities == {SAME}:
        return f"{beginning} equal within rounding in all cells compared"
    if NOT_EQUAL in equalities:
        largest_difference = max(abs(against.difference.value) for against in equivalences)
        extent = format_extent(largest_difference, is_share=final.is_share)
        return f"{beginning} not shown to be equal: means are up to {extent} apart"
    extent_text = format_extent(
        max(against.within for against in equivalences), is_share=final.is_share
    )
    return f"{beginning} that of the reference within {extent_text} in all cells compared"


def _row(final: FinalValue, row: GroupFinal) -> tuple[str, ...]:
    is_share = final.is_share
    difference = row.against.difference.value if row.against else math.nan
    return (
        row.group.label,
        final.write(row.value.value),
        format_bounds(row.value, final.write),
        row.reference or UNKNOWN,
        format_difference(difference, is_share=is_share),
        row.equality(final),
    )
