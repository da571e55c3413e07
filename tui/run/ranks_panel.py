"""The table of ranks: from 16 ranks on below a heat strip, beyond 64 by host."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import ClassVar

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from remote.format import UNKNOWN
from remote.run.diagnosis.host_load import Load, loads
from remote.run.findings.common_step import common_step
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from tui.charts.deck import Deck
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.choice_dialogs import CheckChoice, Checked, CheckListDialog, CheckUse
from tui.kit.draw_turn import DrawTurn
from tui.kit.messages import ShowRank
from tui.kit.panel import TablePanel
from tui.kit.rank_table import RankTable, RankTableLine
from tui.kit.session_clock import SessionClock
from tui.kit.themes import inks_of
from tui.kit.widgets.heat import HeatStrip
from tui.kit.widgets.table import UNSEEN, CellTable, TableCell, TableColumn, TableRow, fit_column
from tui.run.components import heat_strip as heat
from tui.run.components.fold import FoldedColumns, is_empty
from tui.run.components.groups import MAX_SINGLE_RANKS, is_grouped, table_lines
from tui.run.components.rank_cells import RowContext, TrendScale
from tui.run.components.rank_columns import COLUMN_HELP, RANK_COLUMNS, RankColumn, has_own_hosts
from tui.run.components.rank_order import (
    RANK_ORDERS,
    UNMARKED,
    RankOrder,
    describe_first,
    severity,
)

RANKS_PER_LINE = 64
"""Ranks of the heat strip in a line of 80 columns."""
LOW = 6
"""Lines of the panel below which the heat strip is left out."""
NARROW = 100
"""Columns of the panel below which columns that fit their cells stay small."""
NARROW_WIDTH = 17
"""Their width there."""
BUSY_REMARK = "busy: median without waits, others: means"
SHORT_BUSY_REMARK = "busy: median without waits"
"""What tells that column from the phase "compute"."""


class RanksPanel(TablePanel):
    """One line per rank or host, and a cell for each of many ranks."""

    DEFAULT_CSS = "RanksPanel HeatStrip { dock: top; }"
    title = "ranks"
    place = KeyPlace.RANKS
    are_facts_minor = True
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = (
        "every rank: state, step, loss, seconds per step and until its gradients are ready, with "
        "the trend of that; how data ▂, compute ▄ and sync ▆ split a step; load. What is equal on "
        "all ranks stands above the table. Process p0 has started the ranks below it. Enter opens "
        "a rank, or a host"
    )

    class LayoutChosen(Message):
        """The user has chosen columns, and perhaps wants them to be kept."""

        def __init__(self, use: CheckUse) -> None:
            super().__init__()
            self.use = use

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()
        self._order = 0
        self._opened: set[int] = set()
        self._folded = FoldedColumns()
        self._widths: dict[RankColumn, int] = {}
        self._stage: tuple[object, ...] = ()
        self._possible_columns: list[RankColumn] = []  # all but the first
        self._drawn_columns: list[RankColumn] = []
        self._strip_turn, self._table_turn = DrawTurn(), DrawTurn()
        self._scale = TrendScale("seconds", (), 0.0)
        self._loads: Sequence[Load] = ()
        self._common_step = 0
        self._deck: Deck | None = None

    def use_layout(self, deck: Deck) -> None:
        """Show the columns that the user has chosen with these charts."""
        self._deck = deck

    @property
    def _chosen(self) -> list[str]:
        """The titles of the columns that the user has chosen; none for the usual ones."""
        return self._deck.columns if self._deck else []

    @classmethod
    def lines_needed(cls, run: RunState) -> int:
        """One line per rank, also where they stand by host: those can be opened; one for each
        process that has started some; the lines of the heat strip, and the head of the table."""
        num_ranks = len(run.ranks) if run.has_workers else run.plan.world_size
        strip_lines = -(-num_ranks // RANKS_PER_LINE) if num_ranks >= heat.MIN_RANKS else 0
        process_lines = len(run.processes) if run.has_workers else 0
        return num_ranks + process_lines + strip_lines + 1

    def compose(self) -> ComposeResult:
        yield RankTable()
        yield HeatStrip()

    def show(self, run: RunState) -> None:
        is_asked = self.is_asked
        self.is_asked = False
        # Place 1 is that of the outcome: costly parts take turns.
        if self._strip_turn.has_come_for(run, place=2) or is_asked:
            self._scale = _trend_scale(run.ranks)
            self._show_heat(run)
        if self._table_turn.has_come_for(run, place=3) or is_asked:
            self._show_table(run)

    def _show_table(self, run: RunState) -> None:
        table = self.query_one(RankTable)
        rank_order = self._order_now()
        visible_lines = table.size.height - 1
        lines = table_lines(run, rank_order, self._opened, visible_lines)
        near_lines = table.near
        self._loads = loads(run.hosts, run.ranks) if has_own_hosts(run.plan) else []
        # Once: it looks at all ranks.
        self._common_step = common_step(run)
        rows = [self._row_context(line, run) for line in lines[near_lines.start : near_lines.stop]]
        column_cells = {
            rank_column: [rank_column.cell(row) for row in rows]
            for rank_column in self._offered_columns(run)
        }
        shown_columns = self._shown_columns(run, column_cells, table.room)
        folded_columns: list[RankColumn] = []
        # With room for all columns, none needs to go; nor one that the user has chosen.
        if not self._chosen and sum(column.width for column in shown_columns.values()) > table.room:
            folded_columns = [
                rank_column for rank_column in shown_columns if self._folded.has(rank_column)
            ]
        for rank_column in folded_columns:
            del shown_columns[rank_column]
        self._drawn_columns = list(shown_columns)
        drawn_rows: list[TableRow] = [UNSEEN] * len(lines)
        drawn_rows[near_lines.start : near_lines.start + len(rows)] = zip(
            *(column_cells[rank_column] for rank_column in shown_columns), strict=True
        )
        table.stand(list(shown_columns.values()), lines, drawn_rows)
        has_marked = severity(lines[0].ranks[0], run) < UNMARKED
        is_marked_first = len(lines) > visible_lines and has_marked
        self._describe(run, folded_columns, lines[0].ranks[0], marked_first=is_marked_first)

    def _offered_columns(self, run: RunState) -> list[RankColumn]:
        """Return the columns that tell something of the plan; if the user has chosen some, only
        the rank's number and these."""
        first_column, *others = (column for column in RANK_COLUMNS if column.where(run.plan))
        self._possible_columns = others
        if self._chosen:
            others = [column for column in others if column.name in self._chosen]
        return [first_column, *others]

    def _order_now(self) -> RankOrder:
        return RANK_ORDERS[self._order]

    def _row_context(self, line: RankTableLine, run: RunState) -> RowContext:
        sign = ""
        if line.of_host >= 0:
            sign = palette.sign("open" if line.of_host in self._opened else "closed") + " "
        elif is_grouped(run.plan):
            sign = "  "
        now = self._clock.now(run)
        inks = inks_of(self.app.current_theme)
        load = self._loads[line.ranks[0].host] if self._loads else None
        return RowContext(
            line.ranks,
            run,
            now,
            inks,
            self._scale,
            sign,
            line.is_process,
            load,
            self._common_step,
        )

    def _shown_columns(
        self, run: RunState, cells: Mapping[RankColumn, Sequence[TableCell]], width: int
    ) -> dict[RankColumn, TableColumn]:
        """The columns that tell something of a rank, as wide as they are drawn. A column that has
        appeared stays, and gets no narrower, while the run is in the same phase, and before or
        after its first step or a stall."""
        is_chosen = bool(self._chosen)
        drawn_stage = (
            *(run, run.attempt, run.phase, run.step > 0, run.stall is not None, width),
            tuple(self._chosen),
        )
        if drawn_stage != self._stage:
            self._stage = drawn_stage
            self._folded = FoldedColumns()
            self._widths.clear()
        shown_columns = {}
        for rank_column, column_cells in cells.items():
            if is_chosen or rank_column in self._widths or not is_empty(column_cells):
                column = _fitted_column(rank_column, column_cells, width)
                # A column that gets narrower with each number would make all others jump.
                self._widths[rank_column] = max(column.width, self._widths.get(rank_column, 0))
                shown_columns[rank_column] = structs.replace(
                    column, width=self._widths[rank_column]
                )
        # Of rows that stand for whole hosts, columns differ anyway.
        if len(run.ranks) <= MAX_SINGLE_RANKS:
            self._folded.update(RANK_COLUMNS, run.ranks, run)
        return shown_columns

    def _describe(
        self,
        run: RunState,
        folded_columns: Sequence[RankColumn],
        first_rank: RankState,
        *,
        marked_first: bool,
    ) -> None:
        """Say in the border how the ranks are sorted, and on what they agree."""
        rank_order = self._order_now()
        order_note = rank_order.title
        if rank_order.marked_first:
            order_note = describe_first(first_rank, run, rank_order)
        elif marked_first:
            order_note += ", marked first"
        first_row = self._row_context(RankTableLine(run.ranks[:1]), run)
        all_rows = self._row_context(RankTableLine(run.ranks), run)
        shared_texts = []
        for rank_column in folded_columns:
            # That all ranks have ended well is no praise of a run that has diverged.
            if rank_column.name == "state" and run.phase is RunPhase.ENDED:
                continue
            if rank_column.border_cell:
                cell = rank_column.border_cell(all_rows)
            else:
                cell = rank_column.cell(first_row)
            if cell.text != UNKNOWN:
                shared_texts.append(f"{cell.text} {rank_column.border_text}".strip())
        has_busy = any(rank_column.name == "busy" for rank_column in self._drawn_columns)
        busy_remark = SHORT_BUSY_REMARK if self.size.width < NARROW else BUSY_REMARK
        remark = busy_remark if has_busy else ""
        self.caption(order_note, shared_texts, before_facts="  each: ", remark=remark)

    def _show_heat(self, run: RunState) -> None:
        """Draw a cell for each of many ranks above the table, in at most half of the panel."""
        heat_strip = self.query_one(HeatStrip)
        height = self.size.height
        heat_strip.display = len(run.ranks) >= heat.MIN_RANKS and height >= LOW
        if not heat_strip.display:
            return
        heat_grid = heat.heat_grid(len(run.ranks), self.size.width, (height - 1) // 2)
        if heat_strip.styles.height is None or heat_strip.styles.height.value != heat_grid.lines:
            heat_strip.styles.height = heat_grid.lines
        trend_scale = self._scale
        cells = heat.heat_cells(
            run.ranks, run, trend_scale.medians, trend_scale.typical, heat_grid.ranks
        )
        heat_strip.fill(cells, heat_grid.cells, heat_grid.ranks)

    # Keys

    def action_columns(self) -> None:
        """List the columns, with check marks at those that are shown."""
        choices = [
            CheckChoice(column.name, COLUMN_HELP[column.name], column in self._drawn_columns)
            for column in self._possible_columns
        ]
        help_text = "What does not fit in the width is reached with the arrow keys."
        dialog = CheckListDialog("columns of the table of ranks", help_text, choices)
        self.app.push_screen(dialog, self._take_columns)

    def _take_columns(self, checked: Checked | None) -> None:
        if checked is None:
            return
        if checked.use is not CheckUse.RESET and self._deck:
            self._deck.columns = list(checked.names)
        self.is_asked = True
        self.post_message(self.LayoutChosen(checked.use))

    def action_sort(self) -> None:
        """Sort by the next figure."""
        self._order = (self._order + 1) % len(RANK_ORDERS)
        # As if rows had come into view, so that the table does not wait for its turn.
        self.post_message(CellTable.Uncovered())

    def on_rank_table_opened(self, message: RankTable.Opened) -> None:
        """Open the page of a rank; show or hide the ranks of a host."""
        message.stop()
        host_index = message.line.of_host
        if message.line.is_process:
            return
        if host_index < 0:
            self.post_message(ShowRank(message.line.ranks[0].rank))
        else:
            self._opened ^= {host_index}
            self.post_message(CellTable.Uncovered())


def _trend_scale(ranks: Sequence[RankState]) -> TrendScale:
    """What is typical now: of `ready`, or where ranks do not tell it, of the seconds of a step."""
    for rank_column in ("ready", "seconds"):
        medians = [rank.pace.median(rank_column) for rank in ranks]
        known_medians = [value for value in medians if value > 0]
        if known_medians:
            return TrendScale(rank_column, medians, statistics.median(known_medians))
    return TrendScale("seconds", medians, 0.0)


def _fitted_column(rank_column: RankColumn, cells: Sequence[TableCell], width: int) -> TableColumn:
    """The column, as wide as its longest cell: a number that is cut would be another one. A trend
    takes what is left."""
    column = rank_column.column
    if column.tail:
        return column
    small_width = max(NARROW_WIDTH, column.width) if width < NARROW and not column.right else 0
    return fit_column(column, cells, small_width)
