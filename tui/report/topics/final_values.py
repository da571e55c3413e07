"""Final losses and accuracies: do all groups train the same model, and did they learn at all?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from remote.format import UNKNOWN, number
from remote.metrics.run import RunFigures
from remote.run.state.progress import not_learned
from remote.statistics.equivalence import Equivalence, measure_equivalence
from remote.statistics.interval import Interval, ValueScale, hide_few, mean_interval
from tui.report.document import ReportTable, Section
from tui.report.formatting import (
    SAME,
    TOO_FEW,
    format_difference,
    format_extent,
    format_final,
    format_final_bounds,
)
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

ROUNDING = 0.001
"""Share of the loss below which a difference is that of rounding."""
CLOSE = 0.01
"""Share of the loss, or part of the accuracy, within which values are called equal."""
HEAD = ("cell", "95% interval", "compared with", "difference", "finding")
NOT_LEARNED = "Some models did not learn: how far such are apart says nothing about the methods."


@dataclass(frozen=True)
class FinalValue:
    """A value that a run has at its end."""

    name: str
    of: Callable[[RunFigures], float]
    is_share: bool = False


@dataclass(frozen=True)
class GroupFinal:
    """A final value of a group, and how it compares with that of its reference."""

    group: RunGroup
    value: Interval
    against: Equivalence | None
    reference: str = ""

    def margin(self, final: FinalValue) -> float:
        """Return within which difference the value is called equal to another."""
        return CLOSE if final.is_share else CLOSE * abs(self.value.value)


def _last_test(name: str) -> Callable[[RunFigures], float]:
    def read(run: RunFigures) -> float:
        return getattr(run.evaluations[-1], name) if run.evaluations else math.nan

    return read


TRAINING_LOSS = FinalValue("training loss", RunFigures.final_loss)
TEST_LOSS = FinalValue("test loss", _last_test("loss"))
ACCURACY = FinalValue("test accuracy", _last_test("accuracy"), is_share=True)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a table per final value; None if there is nothing to compare."""
    tables = []
    for final in (TRAINING_LOSS, TEST_LOSS, ACCURACY):
        rows = compare_finals(subject, final)
        if any(row.against for row in rows):
            tables.append(_table(final, rows))
    if not tables:
        return None
    paragraphs = [f"{sentence}." for sentence in describe_equality(subject)]
    if not all(map(has_learned, subject.measured)):
        paragraphs.append(NOT_LEARNED)
    paragraphs += _describe_lower_losses(subject)
    return Section("equality", "The same result?", paragraphs, tables)


# Did it learn? ------------------------------------------------------------------------------------


def loss_ends(runs: Iterable[RunFigures]) -> list[tuple[str, float, float]]:
    """Return the name, the first and the last training loss of each run that has steps."""
    ends = []
    for run in runs:
        _, losses = run.steps.mean_over_ranks("loss")
        if losses.size:
            ends.append((run.name, float(losses[0]), float(losses[-1])))
    return ends


def has_learned(group: RunGroup) -> bool:
    """Return True if no run of a group diverged, or had a loss that rose."""
    has_diverged = any(run.diverged for run in group.runs)
    return not has_diverged and not not_learned(loss_ends(group.runs))


# Is it the same? ----------------------------------------------------------------------------------


def compare_finals(subject: ReportSubject, final: FinalValue) -> list[GroupFinal]:
    """Compare the groups that have this value with their references."""
    rows = []
    for group in subject.groups:
        values = [final.of(run) for run in group.runs]
        if not np.isfinite(values).any():
            continue
        against = None
        reference = subject.reference_of(group)
        if reference and reference.by_repetition:
            against = _compare_repetitions(group, reference, final)
        value = hide_few(mean_interval(values, ValueScale.DIFFERENCE))
        rows.append(GroupFinal(group, value, against, reference.label if reference else ""))
    return rows


def _compare_repetitions(group: RunGroup, reference: RunGroup, final: FinalValue) -> Equivalence:
    """Compare repetition by repetition: they share their seed."""
    repetitions = sorted({*group.by_repetition, *reference.by_repetition})
    columns = []
    for runs in (group.by_repetition, reference.by_repetition):
        # A repetition that one of the two lacks counts in neither.
        columns.append([final.of(runs[at]) if at in runs else math.nan for at in repetitions])
    result = measure_equivalence(*columns)
    return replace(result, difference=hide_few(result.difference))


def describe_equality(subject: ReportSubject) -> list[str]:
    """Return what is known of final training losses and accuracies, a sentence each.

    Models that did not learn may well be equal: that is not worth a sentence.
    """
    if not all(map(has_learned, subject.measured)):
        return []
    sentences = []
    for final in (TRAINING_LOSS, ACCURACY):
        rows = [row for row in compare_finals(subject, final) if row.against]
        if rows:
            sentences.append(_describe(final, rows))
    return [sentence for sentence in sentences if sentence]


def _describe(final: FinalValue, rows: list[GroupFinal]) -> str:
    """Return how close the values of all rows are in words; "" if that is not known."""
    compared = [(row.against, row.margin(final)) for row in rows if row.against]
    if all(against.is_same for against, _ in compared):
        return f"The final {final.name} is equal within rounding in all cells compared"
    if any(math.isnan(against.within) for against, _ in compared):
        return ""
    if all(against.within <= margin for against, margin in compared):
        within = _in_words(max(against.within for against, _ in compared), final)
        reference = f"that of the reference within {within}"
        return f"The final {final.name} is {reference} in all cells compared"
    apart = _in_words(max(abs(against.difference.value) for against, _ in compared), final)
    return f"The final {final.name} is not shown to be equal: means are up to {apart} apart"


def _in_words(value: float, final: FinalValue) -> str:
    return f"{number(value * 100)} percentage points" if final.is_share else number(value)


def _describe_lower_losses(subject: ReportSubject) -> Iterator[str]:
    """Yield a sentence on each cell that converges faster than its reference, as exact methods
    cannot: the sanity check of MLPerf's reference convergence points."""
    for row in compare_finals(subject, TRAINING_LOSS):
        if row.against and row.against.difference.high < -ROUNDING * abs(row.value.value):
            yield (
                f"{row.group.label} ends with a lower training loss than {row.reference}: if both "
                "are to train the same model, check that their settings are equal."
            )


def _table(final: FinalValue, rows: list[GroupFinal]) -> ReportTable:
    note = "Difference: mean over repetitions, which share their seed."
    if any(math.isfinite(row.against.within) for row in rows if row.against):
        close = "1 point" if final.is_share else f"{CLOSE:.0%} of the loss"
        note += (
            " Equal within X: the 90% interval of the difference lies within X, which is two "
            f"one-sided tests at 5%, and X is at most {close}."
        )
    head = (HEAD[0], final.name, *HEAD[1:])
    return ReportTable(f"Final {final.name}", head, [_row(final, row) for row in rows], note)


def _row(final: FinalValue, row: GroupFinal) -> tuple[str, ...]:
    is_share = final.is_share
    difference = row.against.difference.value if row.against else math.nan
    return (
        row.group.label,
        format_final(row.value.value, is_share=is_share),
        format_final_bounds(row.value, is_share=is_share),
        row.reference or UNKNOWN,
        format_difference(difference, is_share=is_share),
        format_equality(row.against, row.margin(final), is_share=is_share),
    )


def format_equality(against: Equivalence | None, margin: float, *, is_share: bool) -> str:
    """Format how close final values are: "equal within rounding", "equal within 0.012".

    What may differ by more than the `margin` is not called equal.
    """
    if against is None:
        return UNKNOWN
    if against.is_same:
        return SAME
    if math.isnan(against.within):
        return TOO_FEW
    if against.within <= margin:
        return f"equal within {format_extent(against.within, is_share=is_share)}"
    return "not shown to be equal"
