"""The metric that a study compares, if that is not the time of a step."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, seconds
from remote.statistics.comparison import Finding
from remote.statistics.interval import Interval, hide_few
from tui.report.document import ReportTable, Section
from tui.report.formatting import (
    SAME,
    TOO_FEW,
    format_difference,
    format_difference_bounds,
    format_final,
    format_final_bounds,
    format_finding,
    format_p,
    format_ratio,
    format_ratio_bounds,
    format_seconds_bounds,
)
from tui.report.subject import MetricOutcome, ReportSubject, RunGroup
from tui.report.timing import SubjectTiming


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table of the comparison; None if the time of a step is compared."""
    rows = []
    for group, outcome in zip(subject.groups, subject.outcomes, strict=False):
        if outcome.value:
            rows.append(_row(subject, group, outcome, outcome.value))
    if not rows:
        return None
    name = subject.metric_name
    apart = "ratio" if _is_time(subject) else "difference"
    head = ("cell", name, "95% interval", "against", apart, "95% interval", "p", "finding")
    title = f"{name[:1].upper()}{name[1:]} compared"
    table = ReportTable(title, head, rows, _note(subject, apart))
    return Section("metric", title, (), [table])


def _is_time(subject: ReportSubject) -> bool:
    return subject.metric == "elapsed"


def _is_share(subject: ReportSubject) -> bool:
    return subject.metric == "accuracy"


def _row(
    subject: ReportSubject, group: RunGroup, outcome: MetricOutcome, value: Interval
) -> tuple[str, ...]:
    is_share = _is_share(subject)
    if _is_time(subject):
        middle = seconds(value.value)
        bounds = format_seconds_bounds(hide_few(value))
    else:
        middle = format_final(value.value, is_share=is_share)
        bounds = format_final_bounds(hide_few(value), is_share=is_share)
    against = outcome.against
    reference = subject.reference_of(group)
    if against is None or reference is None:
        return (group.label, middle, bounds, *[UNKNOWN] * 5)
    return (
        group.label,
        middle,
        bounds,
        reference.label,
        *_format_apart(subject, against.ratio),
        format_p(against),
        _format_finding(subject, outcome),
    )


def _format_apart(subject: ReportSubject, ratio: Interval) -> tuple[str, str]:
    """Format how far two groups are apart, and the interval of that."""
    if _is_time(subject):
        return format_ratio(ratio), format_ratio_bounds(ratio)
    is_share = _is_share(subject)
    difference = format_difference(ratio.value, is_share=is_share)
    return difference, format_difference_bounds(ratio, is_share=is_share)


def _format_finding(subject: ReportSubject, outcome: MetricOutcome) -> str:
    against = outcome.against
    if against is None:
        return UNKNOWN
    if outcome.is_same:
        return SAME
    if math.isnan(against.ratio.low):
        return TOO_FEW
    if _is_time(subject) or against.finding is Finding.NOT_SHOWN:
        return format_finding(against)
    return against.finding.value


def _note(subject: ReportSubject, apart: str) -> str:
    comparisons = [outcome.against for outcome in subject.outcomes if outcome.against]
    shown = [comparison for comparison in comparisons if math.isfinite(comparison.p)]
    if not shown:
        return ""
    formula = "cell / reference" if apart == "ratio" else "cell - reference"
    note = (
        f"This is what the study compares. {apart}: {formula}. p: how often chance alone shows at "
        "least such a difference."
    )
    if len(shown) > 1:
        note += f" The {len(shown)} comparisons are one family."
    return note
