"""Speed-up and efficiency against one node, and each group against its reference."""

from __future__ import annotations

import math

from remote.format import IN_DOUBT, UNKNOWN, percent
from remote.statistics.interval import FEWEST
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers.timing import Timed, Timing
from tui.report.pictures import scaling
from tui.report.subject import Subject

HEAD = (
    *("cell", "speed-up", "95% interval", "efficiency", "95% interval ", "against", "ratio"),
    *("95% interval  ", "p", "finding"),
)


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table and the pictures; None of a single group."""
    if len(timing.rows) < 2:
        return None
    base = None if subject.baseline is None else timing.of(subject.groups[subject.baseline])
    rows = [_row(subject, row) for row in timing.rows]
    says = [] if base is None else [f"Speed-up 1 is {base.group.label}."]
    if timing.per_sample:
        says.append("The global batches differ in size: what is compared is the time per sample.")
    return Section(
        "scaling",
        "Speed-up and comparison",
        [*says, *_means(timing)],
        [Table("Speed-up and comparison", HEAD, rows, _note(subject, timing))],
        scaling.pictures(timing.rows, base, subject.along) if subject.is_study or base else [],
    )


def _row(subject: Subject, row: Timed) -> tuple[str, ...]:
    other = subject.references[subject.groups.index(row.group)]
    against = row.against
    return (
        row.group.label,
        text.times(row.speed_up, is_doubtful=bool(row.speed_up_doubt)),
        text.bounds(row.speed_up),
        _efficiency(row),
        _shares(row),
        subject.groups[other].label if other is not None and against else UNKNOWN,
        text.times(against.ratio if against else None, is_doubtful=bool(row.doubt)),
        text.bounds(against.ratio if against else None),
        f"{against.p:.2g}" if against and math.isfinite(against.p) else UNKNOWN,
        IN_DOUBT if row.doubt else text.finding(against),
    )


def _efficiency(row: Timed) -> str:
    if row.efficiency is None:
        return UNKNOWN
    return text.marked(percent(row.efficiency.value), is_doubtful=bool(row.speed_up_doubt))


def _shares(row: Timed) -> str:
    value = row.efficiency
    if value is None or not math.isfinite(value.low) or value.low == value.high:
        return UNKNOWN
    return f"{percent(value.low)} to {percent(value.high)}"


def _means(timing: Timing) -> list[str]:
    """Over several groups, how many times as fast each line is, unless one of them is in doubt."""
    doubtful = {row.group.line for row in timing.rows if row.doubt}
    return [
        f"{line} is {text.times(mean)} times as fast as its reference ({text.bounds(mean)}): the "
        "geometric mean over its cells."
        for line, mean in timing.means.items()
        if math.isfinite(mean.low) and line not in doubtful
    ]


def _note(subject: Subject, timing: Timing) -> str:
    noise = f" The noise from run to run is {timing.noise:.1%}." if timing.noise >= 0 else ""
    time = "time per sample" if timing.per_sample else "time"
    ratio = f"Ratio: {time} of the cell / {time} of what it is compared with."
    if timing.doubts:
        ratio += f" {text.DOUBTFUL}"
    if any(row.against and math.isfinite(row.against.p) for row in timing.rows):
        ratio += " p: how often chance alone shows at least such a difference."
    if subject.is_study:
        shown = sum(
            1 for row in timing.rows if row.against and math.isfinite(row.against.ratio.low)
        )
        together = (
            f" The {shown} comparisons are one family: of studies without any difference, 5% "
            "report one."
            if shown > 1
            else ""
        )
        few = any(len(row.group.runs) < FEWEST for row in timing.rows)
        shared = " Intervals here rest on the noise of all cells together." if few and shown else ""
        return ratio + together + noise + shared
    return (
        f"{ratio} A single run cannot show how much runs differ: 3% is assumed where no runs have "
        "equal settings."
    )
