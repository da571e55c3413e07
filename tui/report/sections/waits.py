"""Who waited for whom."""

from __future__ import annotations

from remote.format import count, fixed, percent
from remote.metrics.run import RunFigures
from remote.metrics.waiting import Waiting
from tui.report.document import Picture, Section, Table
from tui.report.numbers.timing import Timing
from tui.report.pictures import matrix
from tui.report.subject import Group, Subject

MOST = 6
"""Groups that are shown."""
HEAD = ("rank", "last of all", "waited", "others waited for it")


def section(subject: Subject, timing: Timing) -> Section | None:
    """A table and a picture for each group whose ranks wait for each other."""
    found = [
        (group, run, waiting)
        for group in subject.shown(MOST)
        if (run := group.first) and (waiting := run.waiting()) and len(waiting.step)
    ]
    if not found:
        return None
    says = [
        "At each step all ranks wait for the one whose last gradient comes last. A wait that is "
        "hidden behind a rank's own work does not count."
    ]
    if len(subject.groups) > 1:
        says.append("Of the first run of each cell.")
    return Section(
        "waits",
        "Who waited for whom",
        [*says, *subject.selection(MOST)],
        [_table(*one) for one in found],
        [_picture(at, *one) for at, one in enumerate(found) if one[2].seconds.any()],
    )


def _table(group: Group, run: RunFigures, waiting: Waiting) -> Table:
    seconds = waiting.for_whom()
    last = waiting.held_up()
    rows = [
        (
            _name(run, rank),
            percent(last[rank]),
            fixed(float(seconds[at].sum()), 2, " s"),
            fixed(float(seconds[:, at].sum()), 2, " s"),
        )
        for at, rank in enumerate(waiting.ranks)
    ]
    note = (
        f"{run.name}: seconds are totals over {count(len(waiting.step), 'step')}; the others "
        f"waited {percent(waiting.share, 1)} of a step."
    )
    return Table(f"Who waited: {group.label}", HEAD, rows, note)


def _picture(at: int, group: Group, run: RunFigures, waiting: Waiting) -> Picture:
    seconds = waiting.for_whom()
    names = [str(rank) for rank in waiting.ranks]
    last = max(waiting.held_up().items(), key=lambda one: one[1])
    alt = (
        f"Matrix of ranks of {group.label}: how many seconds in all the rank of a row waited for "
        f"the rank of a column. Rank {_name(run, last[0])} was the last one in {percent(last[1])} "
        "of the steps, more than any other."
    )
    return matrix.picture(
        f"waits-{at + 1}",
        f"Seconds waited in all: {group.label}",
        alt,
        seconds.tolist(),
        names,
        ("for rank", "rank that waited"),
        lambda value: f"{value:.2g}" if value >= 0.005 else "",
    )


def _name(run: RunFigures, rank: int) -> str:
    host = next((run.hosts[one.host].name for one in run.ranks if one.rank == rank), "left out")
    return f"{rank} ({host})"
