"""Seconds per iteration: groups with their intervals, and how steady they are."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, number, percent, seconds
from remote.statistics.interval import FEWEST
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers import enough
from tui.report.numbers.timing import Timed, Timing, rule
from tui.report.pictures import seconds as picture
from tui.report.subject import Subject

HEAD = (
    *("cell", "nodes", "ranks", "batch", "s/iter", "95% interval", "ms/sample"),
    *("runs", "variation", "stable?"),
    *("p50 s", "p99 s", "max s"),
)


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table and the picture."""
    if not timing.rows:
        return None
    table = Table(
        "Seconds per iteration",
        HEAD,
        [_row(row, timing) for row in timing.rows],
        _note(subject, timing),
    )
    found = picture.picture(timing.rows)
    return Section(
        "times",
        "Time per iteration",
        [*_unstable(timing), *enough.sentence(subject)],
        [table],
        [found] if found else [],
    )


def _row(row: Timed, timing: Timing) -> tuple[str, ...]:
    group = row.group
    stability = row.stability
    return (
        group.label,
        *(str(one) if one else UNKNOWN for one in (group.nodes, group.ranks, group.batch)),
        seconds(row.seconds.value),
        text.seconds_bounds(row.seconds),
        number(1e3 * row.seconds.value / group.batch)
        if timing.per_sample and group.batch
        else UNKNOWN,
        str(len(group.runs)),
        percent(stability.variation, 1) if math.isfinite(stability.variation) else UNKNOWN,
        _stable(row),
        *(seconds(one) for one in row.shares),
    )


def _stable(row: Timed) -> str:
    if row.stability.runs < FEWEST and row.stability.stable:
        return "not known"
    return "yes" if row.stability.stable else "no"


def _note(subject: Subject, timing: Timing) -> str:
    note = (
        f"s/iter: {rule(subject)}. p50, p99 and max are of single iterations of ranks: "
        "half of them, 99% and all take at most that long. "
    )
    if subject.is_study and not any(row.stability.variation >= 0 for row in timing.rows):
        return note
    if subject.is_study:
        has_interval = any(math.isfinite(row.seconds.low) for row in timing.rows)
        what = "The interval and the variation are" if has_interval else "The variation is"
        return note + (
            f"{what} over runs, each of which is one number. variation: their standard deviation "
            "as a share of the mean; stable? is no from 10% on."
        )
    return note + "The interval is that of the iterations of one run; runs may differ by more."


def _unstable(timing: Timing) -> list[str]:
    return [
        f"{row.group.label} is unstable: {'; '.join(row.stability.warnings)}."
        for row in timing.rows
        if row.stability.warnings
    ]
