"""The start of a run, host by host: which stages are done, in how many seconds, and what is wrong.
Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from remote.doctor.host_facts import NAMED
from remote.doctor.wording import whose
from remote.format import duration, step_time
from remote.run.findings.start_progress import HostStart, host_starts, start_stages
from remote.run.run_state import RunState
from remote.run.state.host_state import strip_host_name
from remote.run.state.phases import HostPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.run.components.check_warning import CheckWarning, list_warnings, read_warning

STAGE_WIDTH = 13
"""Cells of a stage."""
MIN_TEXT_WIDTH = 20
"""Columns that a warning is folded to at least."""
IN_TROUBLE = (HostPhase.SILENT, HostPhase.LOST, HostPhase.ENDED)
"""Phases of a host that are no part of a start that goes well."""


def start_columns(run: RunState) -> list[TableColumn]:
    """Return a column for the host, and one for each stage."""
    return [
        TableColumn("host", 6, right=False, most=15),
        *(TableColumn(stage.title, STAGE_WIDTH, right=False) for stage in start_stages(run)),
    ]


def start_rows(run: RunState, now: float, room: int) -> list[TableRow]:
    """Return a row for each host. Whoever is furthest behind stands out and, where not all rows
    fit, comes first."""
    starts = host_starts(run, now)
    least_stage = min(start.stage for start in starts)
    if len(starts) > room:
        starts.sort(key=lambda start: start.stage)
    most_stage = max(start.stage for start in starts)
    return [
        _start_row(
            start,
            run,
            is_behind=start.stage == least_stage < most_stage,
            waits=start.stage > least_stage,
        )
        for start in starts
    ]


def _start_row(start: HostStart, run: RunState, *, is_behind: bool, waits: bool) -> TableRow:
    num_stages = len(start_stages(run))
    cells = [_stage_cell(start, stage, is_behind=is_behind) for stage in range(num_stages)]
    if waits and start.stage == num_stages - 1:
        seconds = start.seconds.get(start.stage, 0.0)
        cells[-1] = TableCell(f"{palette.sign('live')} ready {duration(seconds)}", "table--good")
    return (TableCell(plain(start.host.name), "table--strong" if is_behind else ""), *cells)


def _stage_cell(start: HostStart, stage: int, *, is_behind: bool) -> TableCell:
    if stage > start.stage:
        return TableCell(palette.sign("wait"), "table--dim")
    if stage == start.stage and start.host.phase in IN_TROUBLE:
        return phase_cell(start.host.phase)
    seconds = start.seconds.get(stage)
    if stage < start.stage:
        time_text = f" {_format_seconds(seconds)}" if seconds else ""
        return TableCell(f"{palette.sign('good')}{time_text}", "table--dim")
    style = "table--strong" if is_behind else ""
    return TableCell(f"{palette.sign('work')} {duration(seconds or 0.0)}", style)


def _format_seconds(seconds: float) -> str:
    return step_time(seconds) if seconds < 1 else f"{seconds:.1f} s"


def start_warnings(run: RunState, width: int) -> list[str]:
    """Return what is wrong with hosts, each text in whole lines: why one is lost, then what the
    checks warn of."""
    text_width = max(width, MIN_TEXT_WIDTH)
    lines: list[str] = []
    for text in _warning_texts(run):
        lines += textwrap.wrap(plain(text), text_width, subsequent_indent="  ")
    return lines


def find_start_warning(run: RunState) -> CheckWarning | None:
    """Return the first warning that a key helps against, or else the first one; None without any,
    and in a stall, which hides the strip."""
    warnings = [] if run.stall else [read_warning(run, check) for check in list_warnings(run)]
    helped = (warning for warning in warnings if warning.advice)
    return next(helped, warnings[0] if warnings else None)


def _warning_texts(run: RunState) -> Iterator[str]:
    for host in run.hosts:
        if host.reason and host.phase in IN_TROUBLE:
            reason = strip_host_name(host.reason, host.name)
            yield f"{palette.sign('bad')} {host.name}: {reason}"
    host_names = [host.name for host in run.hosts]
    told_above = find_start_warning(run)
    for check in list_warnings(run):
        if told_above is None or check != told_above.check:
            remedy = check.command or check.advice
            hosts_text = whose(host_names, check, NAMED)
            yield f"{palette.sign('slow')} {hosts_text}{check.check}: {check.text}"
            # On a line of its own, so that a command can be copied.
            if remedy:
                yield f"  {palette.sign('playing')} {remedy}"
