"""The table of hosts: their phases, CPU, network traffic without loopback, and memory."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from remote.format import UNKNOWN, duration, percent, short_size
from remote.plan.place import is_loopback
from remote.run.state import HostPhase, HostState, RunState
from remote.run.waiting import REACHING, age
from tui.actions import Place, bindings
from tui.panels.parts.panel import Panel, ScreenRow
from tui.session_clock import SessionClock
from tui.widgets.log_view import plain
from tui.widgets.phase import phase
from tui.widgets.table import Cell, Column, Row, Table

COLUMNS = (
    Column("host", 10, right=False, most=11),
    Column("phase", 13, right=False, most=18),
    Column("CPU", 5),
    Column("out/s", 6),
    Column("in/s", 6),
    Column("memory", 7),
    Column("", 1, right=False, most=200),
)
ROOMY = 52
"""The width of the table from which on a phase has room for its age."""


class Hosts(Panel):
    """One line per host, with the age of its phase, and the reason if it was lost or refused."""

    title = "hosts"
    place = Place.HOSTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = "every host: its phase, CPU, network and memory"
    row = ScreenRow.TOP
    staged = True

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS)

    def show(self, run: RunState) -> None:
        now, roomy = self._clock.now(run), self.size.width >= ROOMY
        wired = not all(is_loopback(host.address) for host in run.plan.hosts)
        self.query_one(Table).fill(
            [_row(host, _age(host, run, now) if roomy else "", wired) for host in run.hosts]
        )


def _age(host: HostState, run: RunState, now: float) -> str:
    """Say for how long the host has been starting or silent."""
    if host.phase is HostPhase.SILENT:
        return f" {duration(age(host.heard, run, now))}"
    return f" {duration(age(host.since, run, now))}" if host.phase in REACHING else ""


def _row(host: HostState, since: str, wired: bool) -> Row:
    """`wired`: the ranks' traffic goes over the interfaces that are counted, not over loopback."""
    state = phase(host.phase)
    load = percent(fmean(host.cpu) / 100) if host.cpu else UNKNOWN
    traffic = (host.sent, host.received) if wired else (0, 0)
    known = (load, *map(short_size, (*traffic, host.memory_used)))
    shown = (
        known if host.phase is HostPhase.READY else (UNKNOWN,) * len(known)
    )  # of the others they are old
    return (
        Cell(plain(host.name)),
        replace(state, text=state.text + since),
        *map(Cell, shown),
        Cell("" if host.phase is HostPhase.ENDED else f" {plain(host.reason)}", "table--dim"),
    )
