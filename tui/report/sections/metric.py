"""What the study compares, where that is not the time of a step."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, seconds
from remote.statistics.interval import Interval, known
from remote.statistics.ratio import Finding
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers.timing import Timing
from tui.report.subject import Group, Judged, Subject

TIME = "elapsed"
SHARE = "accuracy"


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table of the comparison; None where the time of a step is compared."""
    if not any(one.value for one in subject.outcomes):
        return None
    name = subject.metric_name
    what = "ratio" if subject.metric == TIME else "difference"
    head = ("cell", name, "95% interval", "against", what, "95% interval ", "p", "finding")
    rows = [
        _row(subject, at, group, outcome)
        for at, (group, outcome) in enumerate(zip(subject.groups, subject.outcomes, strict=True))
        if outcome.value
    ]
    title = f"{name[:1].upper()}{name[1:]} compared"
    return Section("metric", title, (), [Table(title, head, rows, _note(subject, what))])


def _row(subject: Subject, at: int, group: Group, outcome: Judged) -> tuple[str, ...]:
    value = outcome.value
    against = outcome.against
    other = subject.references[at]
    assert value
    apart = against.ratio if against else None
    return (
        group.label,
        _value(subject, value.value),
        _bounds(subject, known(value)),
        subject.groups[other].label if other is not None and against else UNKNOWN,
        _apart(subject, apart.value) if apart else UNKNOWN,
        _between(subject, apart) if apart else UNKNOWN,
        f"{against.p:.2g}" if against and math.isfinite(against.p) else UNKNOWN,
        _finding(subject, outcome, apart),
    )


def _value(subject: Subject, value: float) -> str:
    return seconds(value) if subject.metric == TIME else text.final(value, subject.metric == SHARE)


def _bounds(subject: Subject, value: Interval) -> str:
    if subject.metric == TIME:
        return text.seconds_bounds(value)
    return text.final_bounds(value, subject.metric == SHARE)


def _apart(subject: Subject, value: float) -> str:
    if subject.metric == TIME:
        return f"{value:.2f}" if math.isfinite(value) else UNKNOWN
    return text.difference(value, subject.metric == SHARE)


def _between(subject: Subject, apart: Interval) -> str:
    if not math.isfinite(apart.low) or apart.low == apart.high:
        return UNKNOWN
    low, high = (_apart(subject, one).removesuffix(" points") for one in (apart.low, apart.high))
    return f"{low} to {high}"


def _finding(subject: Subject, outcome: Judged, apart: Interval | None) -> str:
    against = outcome.against
    if not against or not apart:
        return UNKNOWN
    if outcome.is_same:
        return text.SAME
    if math.isnan(apart.low):
        return text.TOO_FEW
    if subject.metric == TIME or against.finding is Finding.NOT_SHOWN:
        return text.finding(against)
    return against.finding.value


def _note(subject: Subject, what: str) -> str:
    compared = sum(1 for one in subject.outcomes if one.against and math.isfinite(one.against.p))
    if not compared:
        return ""
    of = "cell / reference" if what == "ratio" else "cell - reference"
    family = f" The {compared} comparisons are one family." if compared > 1 else ""
    return (
        f"This is what the study compares. {what}: {of}. p: how often chance alone shows at least "
        f"such a difference.{family}"
    )
