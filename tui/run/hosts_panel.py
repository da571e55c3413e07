"""The table of hosts: their phases, CPU, network traffic without loopback, and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from remote.cluster.hosts import is_loopback
from remote.format import UNKNOWN, duration, number, percent, short_size
from remote.run.diagnosis.host_load import Load, loads
from remote.run.findings.start_progress import is_starting
from remote.run.findings.start_waits import REACHING, age
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import HostPhase, RunPhase
from remote.sanitise import plain
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.draw_turn import DrawTurn
from tui.kit.panel import TablePanel
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import UNSEEN, CellTable, TableCell, TableColumn, TableRow, fit_column
from tui.run.components.rank_cells import FULL_SHARE
from tui.run.components.start_table import start_columns, start_rows, start_warnings


class HostRow(Struct, frozen=True):
    """What the cells of a host are made of."""

    host: HostState
    load: Load
    age: str
    """For how long it has been in its phase, if that is worth saying."""
    is_traffic_counted: bool
    """The ranks' traffic goes over the interfaces that agents count, not over loopback."""

    def traffic(self, bytes_per_second: int) -> TableCell:
        """Return the cell of traffic; of none as well as of unknown traffic it is "-"."""
        return TableCell(short_size(bytes_per_second) if self.is_traffic_counted else UNKNOWN)


class HostColumn(Struct, frozen=True):
    """A column, and how its cells are made."""

    column: TableColumn
    cell: Callable[[HostRow], TableCell]
    is_figure: bool = True
    """Its values are old once the host is not ready, and not shown then."""

    def cell_of(self, row: HostRow) -> TableCell:
        """Return the cell of a host."""
        is_known = row.host.phase is HostPhase.READY or not self.is_figure
        return self.cell(row) if is_known else TableCell(UNKNOWN)


def _phase_cell(row: HostRow) -> TableCell:
    cell = phase_cell(row.host.phase)
    return TableCell(cell.text + row.age, cell.style)


def _cpu_cell(row: HostRow) -> TableCell:
    """Return the share of the cores that is busy, and how many there are."""
    load = row.load
    cpu_text = f"{percent(load.cpu)} of {number(load.cores)}" if load.cores else UNKNOWN
    return TableCell(cpu_text, "table--warn" if load.cpu > FULL_SHARE else "")


def _reason_cell(row: HostRow) -> TableCell:
    """Return why it is lost or refused."""
    has_ended = row.host.phase is HostPhase.ENDED
    return TableCell("" if has_ended else f" {plain(row.host.reason)}", "table--dim")


GPU = HostColumn(TableColumn("GPU", 5), lambda row: TableCell(percent(row.load.gpu)))
"""A column that is there only where GPUs are measured."""
HOST_COLUMNS = (
    HostColumn(
        TableColumn("host", 6, right=False, most=15),
        lambda row: TableCell(plain(row.host.name)),
        is_figure=False,
    ),
    HostColumn(TableColumn("phase", 8, right=False, most=19), _phase_cell, is_figure=False),
    HostColumn(TableColumn("CPU of cores", 14), _cpu_cell),
    GPU,
    HostColumn(TableColumn("memory", 7), lambda row: TableCell(short_size(row.load.memory))),
    HostColumn(TableColumn("out/s", 6), lambda row: row.traffic(row.host.sample.sent)),
    HostColumn(TableColumn("in/s", 6), lambda row: row.traffic(row.host.sample.received)),
    HostColumn(TableColumn("", 1, right=False, most=200), _reason_cell, is_figure=False),
)
TICKS_PER_DRAWING = 2
"""Ticks from one drawing to the next, while ranks train: hosts tell their load once a second."""
WARNINGS_MARGIN = 4
"""Columns of the panel that warnings do not have, with a frame."""
ROOMY_WIDTH = 50
"""The width of the table from which on a phase has room for its age."""


class StartWarnings(Static):
    """What is wrong with hosts while they start, in whole lines below their table."""

    DEFAULT_CSS = """
    StartWarnings { dock: bottom; display: none; padding: 0 1; color: $text-warning; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._lines: Sequence[str] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines; without any, take no room."""
        if lines != self._lines:
            self._lines = lines
            self.display = bool(lines)
            self.styles.height = len(lines)  # not `auto`: lines of another width mislead
            self.update("\n".join(lines), layout=False)


class HostsPanel(TablePanel):
    """One line per host, with the age of its phase, and the reason if it was lost or refused."""

    title = "hosts"
    place = KeyPlace.HOSTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = (
        "while a run starts, every host: which stages are done, and in how many seconds. "
        "Then its phase, how much of the cores that it may use and of its GPUs is busy, "
        "memory and network. With a CPU quota, or with other hosts of the run on its machine, "
        "cores and memory are those of its ranks alone"
    )

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()
        self._turn = DrawTurn()

    def compose(self) -> ComposeResult:
        yield CellTable([column.column for column in HOST_COLUMNS])
        yield StartWarnings()

    @staticmethod
    def start_lines(run: RunState, width: int) -> int:
        """Return the lines that hosts take while they start: the head, the hosts and warnings."""
        return 1 + len(run.hosts) + len(start_warnings(run, width - WARNINGS_MARGIN))

    def show(self, run: RunState) -> None:
        # While a run starts, phases change quickly, and their ages each second.
        is_calm = run.phase is RunPhase.TRAINING and not self.is_asked
        if self._turn.has_come(TICKS_PER_DRAWING) or not is_calm:
            self.is_asked = False
            warnings = self.query_one(StartWarnings)
            if is_starting(run):
                # Before the first layout, the panel has no width.
                width = (self.size.width or self.app.size.width) - 2
                warnings.show(start_warnings(run, width))
                self._show_start(run)
            else:
                warnings.show(())
                self._show_table(run)

    def _show_start(self, run: RunState) -> None:
        table = self.query_one(CellTable)
        rows = start_rows(run, self._clock.now(run), table.size.height - 1)
        columns = start_columns(run)
        host_cells = [row[0] for row in rows]
        fitted_host = fit_column(columns[0], host_cells)
        table.fill(rows, [fitted_host, *columns[1:]])

    def _show_table(self, run: RunState) -> None:
        now = self._clock.now(run)
        is_roomy = self.size.width >= ROOMY_WIDTH
        # The agent counts no loopback, over which all traffic of one machine goes.
        is_traffic_counted = not all(is_loopback(host.address) for host in run.plan.hosts)
        table = self.query_one(CellTable)
        near_rows = table.near
        host_loads = loads(run.hosts, run.ranks)
        has_gpu = not all(math.isnan(load.gpu) for load in host_loads)
        columns = [column for column in HOST_COLUMNS if has_gpu or column is not GPU]
        table_rows: list[TableRow] = [UNSEEN] * len(run.hosts)
        for host, load in zip(run.hosts, host_loads, strict=True):
            if host.index in near_rows:
                age_text = _phase_age(host, run, now) if is_roomy else ""
                row = HostRow(host, load, age_text, is_traffic_counted)
                table_rows[host.index] = tuple(column.cell_of(row) for column in columns)
        # Rows out of view are empty, and have no say in the widths.
        drawn_rows = [row for row in table_rows if row]
        fitted_columns = [
            fit_column(column.column, [row[column_index] for row in drawn_rows])
            for column_index, column in enumerate(columns[:-1])
        ]
        table.fill(table_rows, [*fitted_columns, columns[-1].column])


def _phase_age(host: HostState, run: RunState, now: float) -> str:
    """Say for how long the host has been starting or silent."""
    if host.phase is HostPhase.SILENT:
        return f" {duration(age(host.heard, run, now))}"
    return f" {duration(age(host.since, run, now))}" if host.phase in REACHING else ""
