"""The table of ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from remote.format import UNKNOWN, duration, number, percent, rate, short_size
from remote.plan.plan import Plan
from remote.run.state import RankPhase, RankState, RunState
from remote.run.waiting import STARTING, age
from tui import palette
from tui.actions import Place, bindings
from tui.panels.parts.panel import Panel, ScreenRow
from tui.session_clock import SessionClock
from tui.widgets.log_view import plain
from tui.widgets.phase import phase
from tui.widgets.table import Cell, Column, Row, Table

PHASES = ("data", "compute", "sync")
BAR = 8
"""Cells of the bar that splits a step."""


@dataclass(frozen=True)
class View:
    """What the cells of a row are made from."""

    rank: RankState
    run: RunState
    now: float
    dark: bool


def _number(view: View) -> Cell:
    return Cell(str(view.rank.rank), palette.colour(view.rank.rank, view.dark))


def _doing(view: View) -> Cell:
    """Its phase; while it trains, that it holds the others up."""
    straggler = view.run.watch.found.get(view.rank.rank)
    if not straggler or view.rank.doing != RankPhase.TRAINING:
        return phase(view.rank.doing)
    ink = "table--bad" if straggler.is_slow else "table--work"
    return Cell(f"{palette.sign('slow')} {straggler.mark}", ink)


def _far(view: View) -> Cell:
    """Epoch and step; before the first step, the age of the phase."""
    rank = view.rank
    if rank.step:
        return Cell(f"{rank.epoch}:{rank.step}")
    if rank.phase not in STARTING[1:]:
        return Cell(UNKNOWN)
    return Cell(f"for {duration(age(rank.since, view.run, view.now))}")


def _loss(view: View) -> Cell:
    """The mean of the last steps, but for a loss that is no number."""
    rank = view.rank
    if rank.step and not math.isfinite(rank.loss):
        return Cell(str(rank.loss), "table--bad")
    return Cell(number(rank.pace.mean("loss") if rank.pace else rank.loss))


def _split(view: View) -> Cell:
    """A bar of the shares of a step, each phase with a sign of its own."""
    shares = [view.rank.pace.per_second(name) for name in PHASES]
    if not view.rank.pace or any(map(math.isnan, shares)):
        return Cell("")
    ends = [round(BAR * min(1.0, sum(shares[: place + 1]))) for place in range(len(PHASES))]
    ends[-1] = BAR
    begins = (0, *ends)
    bar = (
        palette.sign(name) * max(0, end - begin)
        for name, begin, end in zip(PHASES, begins, ends, strict=False)
    )
    return Cell("".join(bar))


def _accuracy(view: View) -> Cell:
    return Cell(percent(view.rank.accuracy))


@dataclass(frozen=True)
class Figure:
    """A column, and how its cells are made. `where` says whether it tells anything of a plan."""

    column: Column
    cell: Callable[[View], Cell]
    where: Callable[[Plan], bool] = lambda plan: True


FIGURES = (
    Figure(Column("rank", 5), _number),
    Figure(
        Column("host", 9, right=False, most=24),
        lambda view: Cell(plain(view.run.host_name(view.rank.host))),
        lambda plan: len(plan.hosts) > 1,
    ),
    Figure(Column("state", 13, right=False), _doing),
    Figure(Column("epoch:step", 11), _far),
    Figure(Column("loss", 7), _loss),
    Figure(Column("s/iter", 7), lambda view: Cell(number(view.rank.pace.mean("seconds")))),
    Figure(Column("ready", 7), lambda view: Cell(number(view.rank.pace.median("ready")))),
    Figure(Column("split", BAR + 1, right=False), _split),
    Figure(Column("CPU", 6), lambda view: Cell(percent(view.rank.cpu / 100))),
    Figure(Column("memory", 7), lambda view: Cell(short_size(view.rank.memory))),
    Figure(Column("acc", 6), _accuracy),
    Figure(Column("samples/s", 10), lambda view: Cell(_rate(view.rank.pace.per_second("samples")))),
)
"""The columns, the most important first: those that do not fit are reached by scrolling."""


def _rate(value: float) -> str:
    return UNKNOWN if math.isnan(value) else rate(value)


class Ranks(Panel):
    """One line per rank: its host, state, progress, pace and load."""

    title = "ranks"
    place = Place.RANKS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = (
        "every rank: state, step, loss, seconds per step and until its gradients are ready; how "
        "data ░, compute ▒ and sync █ split a step; load"
    )
    row = ScreenRow.TOP

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()

    @classmethod
    def lines(cls, plan: Plan) -> int:
        """One line per rank, with the head of the table and the border."""
        return plan.world_size + 2

    def compose(self) -> ComposeResult:
        yield Table()

    def show(self, run: RunState) -> None:
        figures = [figure for figure in FIGURES if figure.where(run.plan)]
        dark, now = self.app.current_theme.dark, self._clock.now(run)
        views = [View(rank, run, now, dark) for rank in run.ranks]
        rows: list[Row] = [tuple(figure.cell(view) for figure in figures) for view in views]
        self.query_one(Table).fill(rows, [figure.column for figure in figures])
