"""The columns of the table of ranks, and their cells: of one rank, or of all ranks of a host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from remote.format import duration, number, or_unknown, percent, rate, short_size
from remote.plan.plan import Plan
from remote.run.findings.start_waits import STARTING, age
from remote.run.run_state import RunState
from remote.run.state.phases import FATES, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn
from tui.run.components.rank_order import SLOW, UNMARKED, severity

PHASES = ("data", "compute", "sync")
BAR = 8
"""Cells of the bar that splits a step."""
STEPS = 20
"""Steps that the widest trend shows."""
QUIET = 5.0
"""Seconds without a sign of life from which on they are said."""
HOST = 24
"""Cells of the name of a host at the most."""


RankFigure = Callable[[RankState], float]
"""A figure of a rank, NaN where it has none."""


@dataclass(frozen=True)
class TrendScale:
    """What trends are drawn by: a figure of `Step`, its medians of the last steps of each rank, and
    their median, which is half as high as a cell."""

    figure: str
    medians: Sequence[float]
    typical: float


@dataclass(frozen=True)
class RowContext:
    """What the cells of a row are made from: a rank, or the ranks of a host, of which the first one
    needs most to be seen. `sign` stands before the name of the host."""

    ranks: Sequence[RankState]
    run: RunState
    now: float
    dark: bool
    scale: TrendScale
    sign: str = ""

    @property
    def rank(self) -> RankState:
        """The only one, or the one that needs most to be seen."""
        return self.ranks[0]

    def ready(self, rank: RankState) -> float:
        """The median `ready` of a rank, taken already where the scale is by it."""
        if self.scale.figure == "ready":
            return self.scale.medians[rank.rank]
        return rank.pace.median("ready")

    def mean(self, value: RankFigure) -> float:
        """The mean of a figure over the ranks that have it; NaN where none has."""
        known = self.known(value)
        return sum(known) / len(known) if known else math.nan

    def known(self, value: RankFigure) -> list[float]:
        """The figure of each rank that has it."""
        return [number for number in map(value, self.ranks) if not math.isnan(number)]


@dataclass(frozen=True)
class RankColumn:
    """A column, and how its cells are made. `where`: whether it tells anything of a plan. `alike`:
    what of a rank, where all ranks agree on it, need not be in the table; `said` is how it is told
    then, after the text of a cell."""

    column: TableColumn
    cell: Callable[[RowContext], TableCell]
    where: Callable[[Plan], bool] = lambda plan: True
    alike: Callable[[RankState, RunState], object] | None = None
    said: str = ""


def _number(view: RowContext) -> TableCell:
    if len(view.ranks) == 1:
        return TableCell(str(view.rank.rank), palette.rank_colour(view.rank.rank, view.dark))
    numbers = [rank.rank for rank in view.ranks]
    return TableCell(f"{min(numbers)}-{max(numbers)}")


def _host(view: RowContext) -> TableCell:
    return TableCell(view.sign + plain(view.run.host_name(view.rank.host)))


def state_cell(rank: RankState, run: RunState, now: float) -> TableCell:
    """Its phase, while it starts with the age of it; that it holds the others up while it trains,
    or did so to the end of a run."""
    straggler = run.stragglers.by_rank.get(rank.rank)
    was_slow = rank.phase in FATES and severity(rank, run) == SLOW
    if straggler and (rank.doing == RankPhase.TRAINING or was_slow):
        ink = "table--bad" if straggler.is_slow else "table--work"
        return TableCell(f"{palette.sign('slow')} {straggler.mark}", ink)
    cell = phase_cell(rank.doing)
    if rank.phase in STARTING[1:] and not rank.stalled and run.phase is not RunPhase.ENDED:
        return TableCell(f"{cell.text} {duration(age(rank.since, run, now))}", cell.style)
    return cell


def _loss(view: RowContext) -> TableCell:
    """The mean of the last steps, but for a loss that is no number."""
    for rank in view.ranks:
        if rank.step and not math.isfinite(rank.loss) and rank.is_diverged:
            return TableCell(str(rank.loss), "table--bad")
    return TableCell(number(view.mean(mean_loss)))


def mean_loss(rank: RankState) -> float:
    """The mean of its last steps; of a user's own program that does not tell their loss, the newest
    that it printed."""
    mean = rank.pace.mean("loss")
    return rank.loss if math.isnan(mean) else mean


def step_split(shares: Sequence[float], width: int) -> str:
    """A bar of the shares of a step, each phase with a sign of its own."""
    if any(map(math.isnan, shares)) or not any(shares[1:]):  # a log may tell `data` alone
        return ""
    ends = [round(width * min(max(0.0, total), 1.0)) for total in accumulate(shares)]
    bar = ""
    for name, end in zip(PHASES, (*ends[:-1], width), strict=True):
        bar += palette.sign(name) * (end - len(bar))
    return bar


def _split(view: RowContext) -> TableCell:
    shares = [view.mean(_per_second(name)) for name in PHASES]
    return TableCell(step_split(shares, BAR), "table--dim")


def _ready(view: RowContext) -> TableCell:
    most = max(map(view.ready, view.ranks))
    return TableCell(number(most if most or view.run.plan.job else math.nan))


def _trend(view: RowContext) -> TableCell:
    scale = view.scale
    if not scale.typical > 0:
        return TableCell("")
    values = view.rank.pace.last(scale.figure)[-STEPS:]
    text = "".join(palette.level_sign(value / scale.typical / 2) for value in values)
    marked = severity(view.rank, view.run) < UNMARKED
    return TableCell(text, "table--work" if marked else "table--dim")


def rank_accuracy(rank: RankState) -> float:
    """The share of the samples of the last steps that were classified correctly; of a user's own
    program, what it printed."""
    if isinstance(rank, ScriptRank):
        return rank.accuracy
    samples = sum(rank.pace.last("samples"))
    return sum(rank.pace.last("correct")) / samples if samples else math.nan


def silent_seconds(rank: RankState, run: RunState, now: float) -> float:
    """Seconds since the last sign of life of a rank that should give some; 0 below `QUIET`."""
    if rank.phase in FATES or rank.phase is RankPhase.WAITING or run.phase is RunPhase.ENDED:
        return 0.0
    seconds = now - max(rank.heard, rank.since)
    return seconds if seconds >= QUIET else 0.0


def _quiet(view: RowContext) -> TableCell:
    seconds = silent_seconds(view.rank, view.run, view.now)
    return TableCell(f"{duration(seconds)} ago" if seconds else "", "table--work")


def _per_second(name: str) -> RankFigure:
    return lambda rank: rank.pace.per_second(name)


def _gpu_use(rank: RankState) -> float:
    return rank.gpu.use / 100 if rank.gpu else math.nan


def _gpu_memory(rank: RankState) -> float:
    return float(rank.gpu.memory_used) if rank.gpu else math.nan


def _mean_seconds(rank: RankState) -> float:
    return rank.pace.mean("seconds")


def _figure(
    title: str, width: int, written: Callable[[float], str], value: RankFigure, said: str = ""
) -> RankColumn:
    """Return a column of the mean of a figure over the ranks of a row. `said`: see `RankColumn`;
    without it, the column is always in the table."""

    def cell(view: RowContext) -> TableCell:
        return TableCell(written(view.mean(value)))

    alike = (lambda rank, _: value(rank)) if said else None
    return RankColumn(TableColumn(title, width), cell, alike=alike, said=said)


def _total(
    title: str, width: int, written: Callable[[float], str], value: RankFigure, said: str = ""
) -> RankColumn:
    """Return a column of the sum of a figure over the ranks of a row. A sum of 0 is not known: a
    script may not tell the figure."""

    def cell(view: RowContext) -> TableCell:
        return TableCell(written(sum(view.known(value)) or math.nan))

    return replace(_figure(title, width, written, value, said), cell=cell)


RANK_COLUMNS = (
    RankColumn(TableColumn("rank", 5), _number),
    RankColumn(
        TableColumn("host", 5, right=False, most=HOST + 1),
        _host,
        lambda plan: len(plan.hosts) > 1,
    ),
    RankColumn(
        TableColumn("state", 13, right=False, most=24),
        lambda view: state_cell(view.rank, view.run, view.now),
        alike=lambda rank, run: rank.doing if severity(rank, run) == UNMARKED else rank.rank,
    ),
    RankColumn(TableColumn("heard", 10), _quiet),
    RankColumn(
        TableColumn("step", 7),
        lambda view: TableCell(or_unknown(min(rank.step for rank in view.ranks))),
    ),
    RankColumn(TableColumn("loss", 7), _loss),
    _figure("s/iter", 7, number, _mean_seconds, "s/iter"),
    RankColumn(TableColumn("ready", 7), _ready),
    RankColumn(TableColumn("trend", 10, right=False, most=STEPS + 1, tail=True), _trend),
    RankColumn(TableColumn("split", BAR + 1, right=False), _split),
    _total("rank CPU", 9, percent, lambda rank: rank.cpu / 100),
    _figure("GPU", 5, percent, _gpu_use),
    _total("GPU mem", 8, short_size, _gpu_memory, "GPU memory"),
    _total("samples/s", 10, rate, _per_second("samples"), "samples/s"),
    _figure("acc", 5, percent, rank_accuracy),
    _total("memory", 7, short_size, lambda rank: float(rank.memory), "memory"),
    _total("sent/s", 7, short_size, _per_second("bytes_sent"), "sent/s"),
)
"""The columns, the most important first: those that do not fit are reached by scrolling."""
