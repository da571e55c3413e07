"""Who waited for whom."""

from __future__ import annotations

from functools import partial

from remote.format import count, fixed, percent
from remote.metrics.run import RunFigures
from remote.metrics.waiting import WaitTimes
from tui.report.document import ReportPicture, ReportTable, Section
from tui.report.matrix import draw_matrix
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

HEAD = ("rank", "last of all", "waited", "others waited for it")
EXPLANATION = (
    "At each step all ranks wait for the one whose last gradient comes last, here in the first run "
    "of each cell. A wait that is hidden behind a rank's own work does not count."
)
LEAST_WRITTEN = 0.005
"""Seconds below which a cell of the picture is left empty."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a table and a picture for each group whose ranks wait for each other."""
    tables: list[ReportTable] = []
    pictures = []
    for group in subject.select_groups():
        run = group.first_run
        waiting = run.wait_times() if run else None
        if run is None or waiting is None or not len(waiting.step):
            continue
        tables.append(_table(group, run, waiting))
        if waiting.seconds.any():
            pictures.append(_picture(len(tables), group, waiting))
    if not tables:
        return None
    paragraphs = [EXPLANATION]
    paragraphs += subject.describe_selected()
    return Section("waits", "Who waited for whom", paragraphs, tables, pictures)


def _table(group: RunGroup, run: RunFigures, waiting: WaitTimes) -> ReportTable:
    seconds = waiting.for_whom()
    last_shares = waiting.last_shares()
    rows = []
    for index, rank in enumerate(waiting.ranks):
        waited = float(seconds[index].sum())
        caused = float(seconds[:, index].sum())
        rows.append(
            (
                _rank_name(run, rank),
                percent(last_shares[rank]),
                fixed(waited, 2, " s"),
                fixed(caused, 2, " s"),
            )
        )
    note = (
        f"{run.name}: seconds are totals over {count(len(waiting.step), 'step')}; the others "
        f"waited {percent(waiting.share, 1)} of a step."
    )
    return ReportTable(f"Who waited: {group.label}", HEAD, rows, note)


def _picture(number: int, group: RunGroup, waiting: WaitTimes) -> ReportPicture:
    names = [str(rank) for rank in waiting.ranks]
    draw = partial(
        draw_matrix,
        waiting.for_whom().tolist(),
        names,
        ("for rank", "rank that waited"),
        lambda value: f"{value:.2g}" if value >= LEAST_WRITTEN else "",
    )
    title = f"Seconds waited in all: {group.label}"
    return ReportPicture(f"waits-{number}", title, names, draw)


def _rank_name(run: RunFigures, rank: int) -> str:
    host = next((run.hosts[one.host].name for one in run.ranks if one.rank == rank), "left out")
    return f"{rank} ({host})"
