"""Whether all groups train the same model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from remote.format import UNKNOWN, number
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers.equality import MEASURES, Equality, Measure, equality
from tui.report.numbers.learning import learned
from tui.report.numbers.timing import Timing
from tui.report.subject import Subject

MARGIN = 0.001
"""Share of the loss below which a difference is that of rounding."""
CLOSE = 0.01
"""Share of the loss, or part of the accuracy, within which values are called equal."""


def section(subject: Subject, timing: Timing) -> Section | None:
    """A table per final value; None where there is nothing to compare."""
    found = [(measure, equality(subject, measure)) for measure in MEASURES]
    found = [(measure, rows) for measure, rows in found if any(row.against for row in rows)]
    if not found:
        return None
    says = [
        *(f"{one}." for one in sentences(subject)),
        *_not_learned(subject),
        *_lower(subject),
    ]
    return Section("equality", "The same result?", says, [_table(*one) for one in found])


def _lower(subject: Subject) -> Iterator[str]:
    """Cells that converge faster than their reference, as exact methods cannot: the sanity check of
    MLPerf's reference convergence points."""
    for row in equality(subject, MEASURES[0]):
        if row.against and row.against.difference.high < -MARGIN * abs(row.value.value):
            yield (
                f"{row.group.label} ends with a lower training loss than {row.reference}: if both "
                "are to train the same model, check that their settings are equal."
            )


def sentences(subject: Subject) -> list[str]:
    """What is known of the final training loss and accuracy, for the verdict on top. Models that
    did not learn may well be equal: that is not worth a sentence."""
    if not all(map(learned, subject.measured)):
        return []
    found = []
    for measure in (MEASURES[0], MEASURES[2]):
        rows = [row for row in equality(subject, measure) if row.against]
        if rows:
            found += _sentence(measure, rows)
    return found


def _not_learned(subject: Subject) -> list[str]:
    if all(map(learned, subject.measured)):
        return []
    return ["Some models did not learn: how far such are apart says nothing about the methods."]


def _sentence(measure: Measure, rows: list[Equality]) -> list[str]:
    if all(row.against and row.against.is_same for row in rows):
        return [f"The final {measure.name} is equal within rounding in all cells compared"]
    if any(math.isnan(row.against.within) for row in rows if row.against):
        return []
    if all(row.against.within <= _margin(measure, row) for row in rows if row.against):
        within = _extent(max(row.against.within for row in rows if row.against), measure)
        return [
            f"The final {measure.name} is that of the reference within {within} in all cells "
            "compared"
        ]
    apart = _extent(max(abs(row.against.difference.value) for row in rows if row.against), measure)
    return [f"The final {measure.name} is not shown to be equal: means are up to {apart} apart"]


def _margin(measure: Measure, row: Equality) -> float:
    return CLOSE if measure.is_share else CLOSE * abs(row.value.value)


def _extent(value: float, measure: Measure) -> str:
    return f"{number(value * 100)} percentage points" if measure.is_share else number(value)


def _table(measure: Measure, rows: list[Equality]) -> Table:
    head = ("cell", measure.name, "95% interval", "compared with", "difference", "finding")
    note = "Difference: mean over repetitions, which share their seed."
    if any(math.isfinite(row.against.within) for row in rows if row.against):
        close = "1 point" if measure.is_share else f"{CLOSE:.0%} of the loss"
        note += (
            " Equal within X: the 90% interval of the difference lies within X, which is two "
            f"one-sided tests at 5%, and X is at most {close}."
        )
    return Table(f"Final {measure.name}", head, [_row(measure, row) for row in rows], note)


def _row(measure: Measure, row: Equality) -> tuple[str, ...]:
    value = row.value
    against = row.against
    return (
        row.group.label,
        text.final(value.value, measure.is_share),
        text.final_bounds(value, measure.is_share),
        row.reference or UNKNOWN,
        text.difference(against.difference.value, measure.is_share) if against else UNKNOWN,
        text.equal(against, _margin(measure, row), measure.is_share),
    )
