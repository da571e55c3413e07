"""The table of hosts: how far the session is with each, and what the machine does: CPU, network without loopback, memory."""

from __future__ import annotations

from statistics import fmean

from textual.app import ComposeResult

from remote.run import HostPhase, HostState, RunState
from remote.waiting import REACHING, age
from tui.panels import figures
from tui.panels.panel import Panel
from tui.session_clock import SessionClock
from tui.widgets.log_view import plain
from tui.widgets.table import Cell, Column, Row, Table

COLUMNS = (
    Column("host", 10, right=False, most=11),
    Column("phase", 13, right=False),
    Column("CPU", 5),
    Column("out/s", 6),
    Column("in/s", 6),
    Column("memory", 7),
    Column("", 1, right=False, most=200),
)


class Hosts(Panel):
    """One line per host; how long it is being reached or silent, and the reason where it is lost or refused."""

    title = "hosts"

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS)

    def show(self, run: RunState) -> None:
        self.query_one(Table).fill([_row(host, run, self._clock.now(run)) for host in run.hosts])


def _row(host: HostState, run: RunState, now: float) -> Row:
    load = figures.percent(fmean(host.cpu) / 100) if host.cpu else figures.DASH
    return (
        Cell(plain(host.name)),
        figures.phase(host.phase),
        Cell(load),
        Cell(figures.memory(host.sent)),
        Cell(figures.memory(host.received)),
        Cell(figures.memory(host.memory_used)),
        Cell(f" {_remark(host, run, now)}", "table--dim"),
    )


def _remark(host: HostState, run: RunState, now: float) -> str:
    if host.phase in REACHING:
        return figures.age(age(host.since, run, now))
    if host.phase is HostPhase.SILENT:
        return figures.age(age(host.heard, run, now))
    return plain(host.reason) if host.phase is not HostPhase.ENDED else ""
