"""The table of hosts: how far the session is with each, and what the machine does: CPU, network without loopback, memory."""

from __future__ import annotations

from statistics import fmean

from textual.app import ComposeResult

from remote.run import HostPhase, HostState, RunState
from tui.panels import figures
from tui.panels.panel import Panel
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
    """One line per host; the reason where one is lost or refused."""

    title = "hosts"

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS)

    def show(self, run: RunState) -> None:
        self.query_one(Table).fill([_row(host) for host in run.hosts])


def _row(host: HostState) -> Row:
    load = figures.percent(fmean(host.cpu) / 100) if host.cpu else figures.DASH
    return (
        Cell(plain(host.name)),
        figures.phase(host.phase),
        Cell(load),
        Cell(figures.memory(host.sent)),
        Cell(figures.memory(host.received)),
        Cell(figures.memory(host.memory_used)),
        Cell("" if host.phase is HostPhase.ENDED else f" {plain(host.reason)}", "table--dim"),
    )
