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
        wait_times = run.wait_times() if run else None
        if run is None or wait_times is None or not len(wait_times.step):
            continue
        tables.append(_make_wait_table(group, run, wait_times))
        if wait_times.seconds.any():
            pictures.append(_make_wait_picture(len(tables), group, wait_times))
    if not tables:
        return None
    paragraphs = [EXPLANATION]
    paragraphs += subject.describe_selected()
    return Section("waits", "Who waited for whom", paragraphs, tables, pictures)


def _make_wait_table(group: RunGroup, run: RunFigures, wait_times: WaitTimes) -> ReportTable:
    wait_matrix = wait_times.for_whom()
    last_shares = wait_times.last_shares()
    rows = []
    for index, rank in enumerate(wait_times.ranks):
        waited_seconds = float(wait_matrix[index].sum())
        caused_seconds = float(wait_matrix[:, index].sum())
        rows.append(
            (
                _rank_name(run, rank),
                percent(last_shares[rank]),
                fixed(waited_seconds, 2, " s"),
                fixed(caused_seconds, 2, " s"),
            )
        )
    note = (
        f"{run.name}: seconds are totals over {count(len(wait_times.step), 'step')}; the others "
        f"waited {percent(wait_times.share, 1)} of a step."
    )
    return ReportTable(f"Who waited: {group.label}", HEAD, rows, note)


def _make_wait_picture(number: int, group: RunGroup, wait_times: WaitTimes) -> ReportPicture:
    rank_names = [str(rank) for rank in wait_times.ranks]
    draw_waits = partial(
        draw_matrix,
        wait_times.for_whom().tolist(),
        rank_names,
        ("for rank", "rank that waited"),
        lambda value: f"{value:.2g}" if value >= LEAST_WRITTEN else "",
    )
    title = f"Seconds waited in all: {group.label}"
    return ReportPicture(f"waits-{number}", title, rank_names, draw_waits)


def _rank_name(run: RunFigures, rank: int) -> str:
    host_name = next(
        (
            run.hosts[rank_figures.host].name
            for rank_figures in run.ranks
            if rank_figures.rank == rank
        ),
        "left out",
    )
    return f"{rank} ({host_name})"
