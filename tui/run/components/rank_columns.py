"""The columns of the table of ranks, and their cells: of one rank, or of all ranks of a host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from remote.cluster.hosts import is_loopback
from remote.format import (
    UNKNOWN,
    duration,
    loss,
    number,
    or_unknown,
    percent,
    rate,
    short_size,
    step_time,
)
from remote.plan.plan import Plan
from remote.run.diagnosis.host_load import Load
from remote.run.findings.rates import busy_seconds, rank_means
from remote.run.findings.stall import rank_word
from remote.run.findings.start_waits import age
from remote.run.findings.training_loss import join_losses
from remote.run.run_state import RunState
from remote.run.state.phases import FATES, START_PHASES, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.sanitise import plain
from training.wire.host_events import HostSample
from tui.kit import palette
from tui.kit.inks import Inks
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn
from tui.run.components.rank_order import UNMARKED, holds_up, severity

PHASES = ("data", "compute", "sync")
BAR_WIDTH = 6
"""Cells of the bar that splits a step."""
PHASES_WIDTH = BAR_WIDTH + len(" compute 75% ")
"""Cells of the bar and of the share of its longest phase."""
HIGHEST_BAR = 0.74
"""The part of a cell that a bar of a trend fills: a higher one would touch the row above."""
TREND_STEPS = 20
"""Steps that the widest trend shows."""
FULL_SHARE = 0.9
"""The share of its cores above which a host is marked."""
MIN_SILENCE = 5.0
"""Seconds without a sign of life from which on they are said."""
MAX_HOST_WIDTH = 24
"""Cells of the name of a host at the most."""


RankFigure = Callable[[RankState], float]
"""A figure of a rank, NaN where it has none."""


class TrendScale(Struct, frozen=True, dict=True):
    """What trends are drawn by: a figure of `Step`, its medians of the last steps of each rank, and
    their median."""

    figure: str
    medians: Sequence[float]
    typical: float

    @cached_property
    def high(self) -> float:
        """The value of the highest bar: the slowest rank is below it, so that its trend shows."""
        return max([2 * self.typical, *(1.2 * median for median in self.medians if median > 0)])


class RowContext(Struct, frozen=True):
    """What the cells of a row are made from: a rank, or the ranks of a host, of which the first one
    needs most to be seen. `sign` stands before the name of the host. `is_process`: it is no rank,
    but has started some."""

    ranks: Sequence[RankState]
    run: RunState
    now: float
    inks: Inks
    scale: TrendScale
    sign: str = ""
    is_process: bool = False
    load: Load | None = None
    """Of its host, where that has no other rank."""

    @property
    def rank(self) -> RankState:
        """The only one, or the one that needs most to be seen."""
        return self.ranks[0]

    @property
    def has_stopped(self) -> bool:
        """Return True if the run has come to a halt: then figures of steps are of before that."""
        return bool(self.run.stall) and self.run.phase is not RunPhase.ENDED

    def ready(self, rank: RankState) -> float:
        """How long a rank is busy in a step; taken already where the scale of trends is by it."""
        is_taken = self.scale.figure == "ready" and not self.is_process
        if is_taken and rank.phase not in FATES:
            return self.scale.medians[rank.rank]
        return busy_seconds(rank)

    def mean(self, value: RankFigure) -> float:
        """The mean of a figure over the ranks that have it; NaN where none has."""
        known_values = self.known(value)
        return sum(known_values) / len(known_values) if known_values else math.nan

    def known(self, value: RankFigure) -> list[float]:
        """The figure of each rank that has it."""
        return [number for number in map(value, self.ranks) if not math.isnan(number)]


MakeCell = Callable[[RowContext], TableCell]


class RankColumn(Struct, frozen=True):
    """A column, and how its cells are made. `where`: whether it tells anything of a plan.
    `shared_value`: what of a rank, where all ranks agree on it, need not be in the table;
    `border_text` is how it is told then, after the text of a cell."""

    column: TableColumn
    cell: MakeCell
    where: Callable[[Plan], bool] = lambda plan: True
    shared_value: Callable[[RankState, RunState], object] | None = None
    border_text: str = ""
    border_cell: MakeCell | None = None
    """How it is told then, from all ranks; without it, the cell of the first rank is taken."""

    @property
    def name(self) -> str:
        """Return what it is called in lists and layouts."""
        return self.column.title


def _number_cell(row_context: RowContext) -> TableCell:
    if row_context.is_process:
        return TableCell(f"p{row_context.rank.rank}", "table--dim")
    if len(row_context.ranks) == 1:
        return TableCell(
            str(row_context.rank.rank), row_context.inks.by_number(row_context.rank.rank)
        )
    rank_numbers = [rank.rank for rank in row_context.ranks]
    return TableCell(f"{min(rank_numbers)}-{max(rank_numbers)}")


def _host_cell(row_context: RowContext) -> TableCell:
    return TableCell(row_context.sign + plain(row_context.run.host_name(row_context.rank.host)))


def state_cell(rank: RankState, run: RunState, now: float) -> TableCell:
    """Its phase, while it starts with the age of it; that it holds the others up while it trains,
    or did so to the end of a run."""
    # The verdict on a slow rank outlasts the run: it is why the run took so long.
    is_told = rank.doing == RankPhase.TRAINING or rank.phase in FATES
    if is_told and holds_up(rank, run):
        straggler = run.stragglers.current(rank.rank)
        mark = straggler.mark if straggler else ""
        return TableCell(f"{palette.sign('slow')} {mark}", "table--bad")
    # A green sign would praise what the verdict calls ruined.
    if rank.phase is RankPhase.FINISHED and _has_diverged(run):
        return phase_cell("ended")
    state = phase_cell(rank_word(rank, run))
    if rank.phase in START_PHASES[1:] and not rank.stalled and run.phase is not RunPhase.ENDED:
        return TableCell(f"{state.text} {duration(age(rank.since, run, now))}", state.style)
    return state


def _has_diverged(run: RunState) -> bool:
    rise = run.divergence.rise
    return run.progress.diverged is not None or (rise is not None and not rise.over)


def _loss_cell(row_context: RowContext) -> TableCell:
    mean_loss = join_losses(row_context.ranks)
    is_number = mean_loss is None or math.isfinite(mean_loss)
    return TableCell(loss(mean_loss), "" if is_number else "table--bad")


def phase_bar(shares: Sequence[float], width: int) -> dict[str, str]:
    """Return the part of each phase of a bar, as wide as its share of a step, with its own sign."""
    if any(map(math.isnan, shares)) or not any(shares[1:]):  # a log may tell `data` alone
        return {}
    # Rounded ends may miss the width of the bar, so the last phase takes what is left.
    phase_ends = [round(width * min(max(0.0, total), 1.0)) for total in accumulate(shares)]
    parts = {}
    start = 0
    for name, phase_end in zip(PHASES, (*phase_ends[:-1], width), strict=True):
        parts[name] = palette.sign(name) * (phase_end - start)
        start = max(start, phase_end)
    return parts


def _split_cell(row_context: RowContext) -> TableCell:
    shares = [row_context.mean(_share_of(name)) for name in PHASES]
    bar = phase_bar(shares, BAR_WIDTH)
    if not bar:
        return TableCell("")
    parts = [(part, f"table--{name}") for name, part in bar.items()]
    share, longest = max(zip(shares, PHASES, strict=True))
    parts.append((f" {longest} {percent(share)}", ""))
    return TableCell("".join(text for text, _ in parts), parts=tuple(parts))


def _ready_cell(row_context: RowContext) -> TableCell:
    # In a script that does not tell when gradients are ready, 0 is not known.
    slowest_ready = max(map(row_context.ready, row_context.ranks))
    return TableCell(
        step_time(slowest_ready if slowest_ready or row_context.run.plan.job else math.nan)
    )


def _trend_cell(row_context: RowContext) -> TableCell:
    scale = row_context.scale
    if not scale.typical > 0:
        return TableCell("")
    last_values = row_context.rank.pace.last(scale.figure)[-TREND_STEPS:]
    shares = (HIGHEST_BAR * min(value / scale.high, 1.0) for value in last_values)
    trend_text = "".join(map(palette.level_sign, shares))
    is_late = holds_up(row_context.rank, row_context.run)
    return TableCell(trend_text, "table--warn" if is_late else "table--dim")


def rank_accuracy(rank: RankState) -> float:
    """The share of the samples of the last steps that were classified correctly; of a user's own
    program, what it printed."""
    if isinstance(rank, ScriptRank):
        return rank.accuracy
    # Of the last steps, as that of a whole epoch hides what has changed since.
    samples = sum(rank.pace.last("samples"))
    return sum(rank.pace.last("correct")) / samples if samples else math.nan


def silent_seconds(rank: RankState, run: RunState, now: float) -> float:
    """Return the seconds since the last sign of life of a rank; 0 below `MIN_SILENCE`.

    A rank that starts, or has ended, gives none.
    """
    if rank.phase in (*FATES, *START_PHASES) or run.phase is RunPhase.ENDED:
        return 0.0
    silence = now - max(rank.heard, rank.since)
    return silence if silence >= MIN_SILENCE else 0.0


def _heard_cell(row_context: RowContext) -> TableCell:
    silence = silent_seconds(row_context.rank, row_context.run, row_context.now)
    return TableCell(f"{duration(silence)} ago" if silence else "", "table--warn")


def _share_of(name: str) -> RankFigure:
    def get_share(rank: RankState) -> float:
        means = rank_means(rank)
        return means.share(getattr(means, name))

    return get_share


def _gpu_use(rank: RankState) -> float:
    return rank.gpu.use / 100 if rank.gpu else math.nan


def _gpu_memory(rank: RankState) -> float:
    return float(rank.gpu.memory_used) if rank.gpu else math.nan


def _mean_seconds(rank: RankState) -> float:
    return rank_means(rank).seconds


def _samples_per_second(rank: RankState) -> float:
    return rank_means(rank).throughput


def _bytes_per_second(rank: RankState) -> float:
    return rank_means(rank).bytes_per_second


def _mean_column(
    title: str,
    width: int,
    format_value: Callable[[float], str],
    value: RankFigure,
    border_text: str = "",
) -> RankColumn:
    """Return a column of the mean of a figure over the ranks of a row.

    `border_text`: see `RankColumn`; without it, the column is always in the table.
    """

    def cell(row_context: RowContext) -> TableCell:
        return TableCell(format_value(row_context.mean(value)))

    shared_value = (lambda rank, _: value(rank)) if border_text else None
    return RankColumn(
        TableColumn(title, width),
        cell,
        shared_value=shared_value,
        border_text=border_text,
        border_cell=cell,
    )


def _sum_column(
    title: str,
    width: int,
    format_value: Callable[[float], str],
    value: RankFigure,
    border_text: str = "",
) -> RankColumn:
    """Return a column of the sum of a figure over the ranks of a row. A sum of 0 is not known: a
    script may not tell the figure."""

    def cell(row_context: RowContext) -> TableCell:
        return TableCell(format_value(sum(row_context.known(value)) or math.nan))

    # What all ranks share is told as their mean, also of a column that adds them up.
    return replace(_mean_column(title, width, format_value, value, border_text), cell=cell)


def _of_steps(rank_column: RankColumn, *, is_rate: bool = False) -> RankColumn:
    """Return a column of figures of the last steps. During a stall it is dim, without rates."""

    def past_cell(make_cell: MakeCell) -> MakeCell:
        def cell(row_context: RowContext) -> TableCell:
            if row_context.has_stopped and is_rate:
                return TableCell(UNKNOWN, "table--dim")
            usual_cell = make_cell(row_context)
            if row_context.has_stopped:
                return replace(usual_cell, style=usual_cell.style or "table--dim")
            return usual_cell

        return cell

    border_cell = rank_column.border_cell
    return replace(
        rank_column,
        cell=past_cell(rank_column.cell),
        border_cell=past_cell(border_cell) if border_cell else None,
    )


def _per_second_of_calls(figure: str) -> RankFigure:
    """Return how to read a figure of the collectives of a rank, where it makes no steps."""
    return lambda rank: rank.collectives.per_second(figure) if exchanges(rank) else math.nan


def exchanges(rank: RankState) -> TypeGuard[ScriptRank]:
    """Return True if collectives are all that is seen of the rank."""
    return isinstance(rank, ScriptRank) and rank.only_exchanges


def _num_calls(rank: RankState) -> float:
    return float(rank.collectives.count) if exchanges(rank) else math.nan


def _call_cell(row_context: RowContext) -> TableCell:
    rank = row_context.rank
    newest = rank.collectives.newest if exchanges(rank) else None
    return TableCell(newest.name if newest else "", "table--dim")


def _samples_cell(row_context: RowContext) -> TableCell:
    known_rates = row_context.known(_samples_per_second)
    samples_per_second = sum(known_rates)
    # Of ranks that train a model each, more ranks are not faster.
    if known_rates and row_context.run.trains_apart:
        samples_per_second /= len(known_rates)
    return TableCell(rate(samples_per_second or math.nan))


def has_own_hosts(plan: Plan) -> bool:
    """Return True if each rank has a host of its own: then hosts need no table."""
    return 1 < len(plan.hosts) == plan.world_size


def _counts_traffic(plan: Plan) -> bool:
    # Agents count no loopback, over which all traffic of one machine goes.
    return has_own_hosts(plan) and not all(is_loopback(host.address) for host in plan.hosts)


def _cores_cell(row_context: RowContext) -> TableCell:
    """The share of the cores of its host that is busy, and how many there are."""
    load = row_context.load
    if load is None or not load.cores:
        return TableCell(UNKNOWN)
    style = "table--warn" if load.cpu > FULL_SHARE else ""
    return TableCell(f"{percent(load.cpu)} of {number(load.cores)}", style)


def _traffic_column(title: str, value: Callable[[HostSample], int]) -> RankColumn:
    """Return a column of what the host of a rank passes to the network, or gets from it."""

    def cell(row_context: RowContext) -> TableCell:
        host = row_context.run.hosts[row_context.rank.host]
        return TableCell(short_size(value(host.sample)))

    return RankColumn(TableColumn(title, 7), cell, _counts_traffic)


RANK_COLUMNS = (
    RankColumn(TableColumn("rank", 5), _number_cell),
    RankColumn(
        TableColumn("host", 5, right=False, most=MAX_HOST_WIDTH + 1),
        _host_cell,
        lambda plan: len(plan.hosts) > 1,
    ),
    RankColumn(
        TableColumn("state", 13, right=False, most=24),
        lambda row_context: state_cell(row_context.rank, row_context.run, row_context.now),
        # A marked rank agrees with nobody, by its number, so that its state stays in the table.
        shared_value=lambda rank, run: rank.doing if severity(rank, run) == UNMARKED else rank.rank,
    ),
    RankColumn(TableColumn("last seen", 10), _heard_cell),
    RankColumn(
        TableColumn("step", 7),
        lambda row_context: TableCell(or_unknown(min(rank.step for rank in row_context.ranks))),
    ),
    _of_steps(RankColumn(TableColumn("loss", 7), _loss_cell)),
    _of_steps(_mean_column("per step", 9, step_time, _mean_seconds, "per step")),
    _of_steps(RankColumn(TableColumn("busy", 7), _ready_cell)),
    RankColumn(
        TableColumn("busy trend", 11, right=False, most=TREND_STEPS + 1, tail=True), _trend_cell
    ),
    RankColumn(TableColumn("phases", PHASES_WIDTH, right=False), _split_cell),
    _sum_column("calls", 7, rate, _num_calls),
    _mean_column("blocked", 8, percent, _per_second_of_calls("seconds")),
    _sum_column("exch/s", 7, short_size, _per_second_of_calls("bytes")),
    RankColumn(TableColumn("last call", 10, right=False, most=24), _call_cell),
    RankColumn(TableColumn("CPU of cores", 13), _cores_cell, has_own_hosts),
    replace(
        _sum_column("rank CPU", 9, percent, lambda rank: rank.cpu / 100),
        where=lambda plan: not has_own_hosts(plan),
    ),
    _mean_column("GPU", 5, percent, _gpu_use),
    _sum_column("GPU mem", 8, short_size, _gpu_memory, "GPU memory"),
    _of_steps(
        replace(
            _sum_column("samples/s", 10, rate, _samples_per_second, "samples/s"), cell=_samples_cell
        ),
        is_rate=True,
    ),
    _of_steps(_mean_column("acc", 5, percent, rank_accuracy)),
    _sum_column("memory", 7, short_size, lambda rank: float(rank.memory), "memory"),
    _of_steps(_sum_column("sent/s", 7, short_size, _bytes_per_second, "sent/s"), is_rate=True),
    _traffic_column("out/s", lambda sample: sample.sent),
    _traffic_column("in/s", lambda sample: sample.received),
)
"""The columns, the most important first: those that do not fit are reached by scrolling."""

COLUMN_HELP = {
    "host": "the host of the rank",
    "state": "what the rank does, or how it has ended",
    "last seen": "how long ago it last sent something",
    "step": "its newest step",
    "loss": "mean training loss of its last steps",
    "per step": "time of a step",
    "busy": "a step without waits for others",
    "busy trend": "busy at each of the last steps",
    "phases": "how a step splits, with the longest part",
    "calls": "calls of torch.distributed",
    "blocked": "share of the time that calls take",
    "exch/s": "bytes that calls exchange per second",
    "last call": "the newest call",
    "CPU of cores": "busy share of the cores of its host",
    "rank CPU": "CPU time of the rank, of one core",
    "GPU": "busy share of its GPU",
    "GPU mem": "memory in use on its GPU",
    "samples/s": "samples per second",
    "acc": "training accuracy of its last steps",
    "memory": "memory of the rank",
    "sent/s": "bytes that the sync method sends per second",
    "out/s": "bytes that its host sends per second",
    "in/s": "bytes that its host receives per second",
}
"""What each column but the first shows, for the list in which one chooses."""
