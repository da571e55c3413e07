"""The table of hosts: their phases, CPU, network traffic without loopback, and memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType

from remote.format import UNKNOWN, duration, number, percent, short_size
from remote.plan.place import is_loopback
from remote.run.diagnosis.host_load import Load, loads
from remote.run.findings.start_waits import REACHING, age
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import HostPhase, RunPhase
from remote.sanitise import plain
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.draw_turn import DrawTurn
from tui.kit.panel import ScreenRow, TablePanel
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import UNSEEN, CellTable, TableCell, TableColumn, TableRow, fit_column

_T = TypeVar("_T")
HOST_COLUMNS = (
    TableColumn("host", 6, right=False, most=15),
    TableColumn("phase", 8, right=False, most=19),
    TableColumn("CPU of cores", 14),
    TableColumn("GPU", 5),
    TableColumn("memory", 7),
    TableColumn("out/s", 6),
    TableColumn("in/s", 6),
    TableColumn("", 1, right=False, most=200),
)
GPU = 3
"""The place of a column that is there only where GPUs are measured."""
EVERY = 2
"""Ticks from one drawing to the next, while ranks train: hosts tell their load once a second."""
ROOMY = 52
"""The width of the table from which on a phase has room for its age."""
FULL = 0.9
"""The share of its cores above which a host is marked."""


class HostsPanel(TablePanel):
    """One line per host, with the age of its phase, and the reason if it was lost or refused."""

    title = "hosts"
    place = KeyPlace.HOSTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = (
        "every host: its phase, how much of the cores that it may use and of its GPUs is busy, "
        "memory, network; of a host with a CPU quota, or of several on one machine, what its ranks "
        "use"
    )
    row = ScreenRow.TOP

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()
        self._turn = DrawTurn()

    def compose(self) -> ComposeResult:
        yield CellTable(HOST_COLUMNS)

    def show(self, run: RunState) -> None:
        is_calm = run.phase is RunPhase.TRAINING and not self.is_asked
        if self._turn.has_come(EVERY) or not is_calm:
            self.is_asked = False
            self._show_table(run)

    def _show_table(self, run: RunState) -> None:
        now = self._clock.now(run)
        roomy = self.size.width >= ROOMY
        wired = not all(is_loopback(host.address) for host in run.plan.hosts)
        table = self.query_one(CellTable)
        near = table.near
        rows: list[TableRow] = [UNSEEN] * len(run.hosts)
        found = loads(run.hosts, run.ranks)
        has_gpu = not all(math.isnan(load.gpu) for load in found)
        for host, load in zip(run.hosts, found, strict=True):
            if host.index in near:
                since = _age(host, run, now) if roomy else ""
                row = _row(host, load, since, wired)
                rows[host.index] = row if has_gpu else _without_gpu(row)
        seen = [row for row in rows if row]
        first = [
            fit_column(HOST_COLUMNS[place], [row[place] for row in seen]) for place in (0, 1, 2)
        ]
        rest = HOST_COLUMNS if has_gpu else _without_gpu(HOST_COLUMNS)
        table.fill(rows, [*first, *rest[3:]])


def _without_gpu(row: tuple[_T, ...]) -> tuple[_T, ...]:
    return row[:GPU] + row[GPU + 1 :]


def _age(host: HostState, run: RunState, now: float) -> str:
    """Say for how long the host has been starting or silent."""
    if host.phase is HostPhase.SILENT:
        return f" {duration(age(host.heard, run, now))}"
    return f" {duration(age(host.since, run, now))}" if host.phase in REACHING else ""


def _cpu(load: Load) -> str:
    """The share of the cores that is busy, and how many there are."""
    return f"{percent(load.cpu)} of {number(load.cores)}" if load.cores else UNKNOWN


def _row(host: HostState, load: Load, since: str, wired: bool) -> TableRow:
    """`wired`: the ranks' traffic goes over the interfaces that are counted, not over loopback."""
    state = phase_cell(host.phase)
    traffic = (host.sent, host.received) if wired else (0, 0)
    known = (
        TableCell(_cpu(load), "table--work" if load.cpu > FULL else ""),
        TableCell(percent(load.gpu)),
        *(TableCell(short_size(value)) for value in (load.memory, *traffic)),
    )
    # of a host that is not ready the figures are old
    shown = known if host.phase is HostPhase.READY else (TableCell(UNKNOWN),) * len(known)
    return (
        TableCell(plain(host.name)),
        replace(state, text=state.text + since),
        *shown,
        TableCell("" if host.phase is HostPhase.ENDED else f" {plain(host.reason)}", "table--dim"),
    )
