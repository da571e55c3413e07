"""The cells of the table of ranks: of one rank, or of all ranks of a host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TypeGuard

from msgspec import Struct

from remote.format import (
    UNKNOWN,
    duration,
    loss,
    number,
    or_unknown,
    percent,
    rate,
    step_time,
)
from remote.run.diagnosis.host_load import Load
from remote.run.findings.rates import busy_seconds, rank_means
from remote.run.findings.stall import rank_word
from remote.run.findings.start_waits import age
from remote.run.findings.training_loss import find_divergence_step, join_losses
from remote.run.run_state import RunState
from remote.run.state.phases import FATES, START_PHASES, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.inks import Inks
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell
from tui.run.components.rank_order import holds_up

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
    common_step: int = 0
    """The step that all ranks of the run have made."""

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


def number_cell(row_context: RowContext) -> TableCell:
    if row_context.is_process:
        return TableCell(f"p{row_context.rank.rank}", "table--dim")
    if len(row_context.ranks) == 1:
        return TableCell(
            str(row_context.rank.rank), row_context.inks.by_number(row_context.rank.rank)
        )
    rank_numbers = [rank.rank for rank in row_context.ranks]
    return TableCell(f"{min(rank_numbers)}-{max(rank_numbers)}")


def host_cell(row_context: RowContext) -> TableCell:
    return TableCell(row_context.sign + plain(row_context.run.host_name(row_context.rank.host)))


def state_cell(rank: RankState, run: RunState, now: float) -> TableCell:
    """Its phase, while it starts with the age of it; that it holds the others up while it trains,
    or did so to the end of a run."""
    # The verdict on a slow rank outlasts the run: it is why the run took so long.
    is_told = rank.doing in (RankPhase.TRAINING, RankPhase.EVALUATING) or rank.phase in FATES
    if is_told and holds_up(rank, run):
        straggler = run.stragglers.current(rank.rank)
        mark = straggler.mark if straggler else ""
        return TableCell(f"{palette.sign('slow')} {mark}", "table--warn")
    # A green sign would praise what the verdict calls ruined.
    if rank.phase is RankPhase.FINISHED and find_divergence_step(run) is not None:
        return phase_cell("ended")
    state = phase_cell(rank_word(rank, run))
    if rank.phase in START_PHASES[1:] and not rank.stalled and run.phase is not RunPhase.ENDED:
        return TableCell(f"{state.text} {duration(age(rank.since, run, now))}", state.style)
    return state


def step_cell(row_context: RowContext) -> TableCell:
    """The newest step, where its host reports it later than others the one that all have made."""
    step = min(rank.step for rank in row_context.ranks)
    # A rank that serves others makes none.
    return TableCell(or_unknown(step and max(step, row_context.common_step)))


def loss_cell(row_context: RowContext) -> TableCell:
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


def split_cell(row_context: RowContext) -> TableCell:
    shares = [row_context.mean(_share_of(name)) for name in PHASES]
    bar = phase_bar(shares, BAR_WIDTH)
    if not bar:
        return TableCell("")
    parts = [(part, f"table--{name}") for name, part in bar.items()]
    share, longest = max(zip(shares, PHASES, strict=True))
    parts.append((f" {longest} {percent(share)}", ""))
    return TableCell("".join(text for text, _ in parts), parts=tuple(parts))


def ready_cell(row_context: RowContext) -> TableCell:
    # In a script that does not tell when gradients are ready, 0 is not known.
    slowest_ready = max(map(row_context.ready, row_context.ranks))
    return TableCell(
        step_time(slowest_ready if slowest_ready or row_context.run.plan.job else math.nan)
    )


def trend_cell(row_context: RowContext) -> TableCell:
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


def heard_cell(row_context: RowContext) -> TableCell:
    silence = silent_seconds(row_context.rank, row_context.run, row_context.now)
    return TableCell(f"{duration(silence)} ago" if silence else "", "table--warn")


def _share_of(name: str) -> RankFigure:
    def get_share(rank: RankState) -> float:
        means = rank_means(rank)
        return means.share(getattr(means, name))

    return get_share


def samples_per_second(rank: RankState) -> float:
    return rank_means(rank).throughput


def exchanges(rank: RankState) -> TypeGuard[ScriptRank]:
    """Return True if collectives are all that is seen of the rank."""
    return isinstance(rank, ScriptRank) and rank.only_exchanges


def call_cell(row_context: RowContext) -> TableCell:
    rank = row_context.rank
    newest = rank.collectives.newest if exchanges(rank) else None
    return TableCell(newest.name if newest else "", "table--dim")


def samples_cell(row_context: RowContext) -> TableCell:
    known_rates = row_context.known(samples_per_second)
    total_rate = sum(known_rates)
    # Of ranks that train a model each, more ranks are not faster.
    if known_rates and row_context.run.trains_apart:
        total_rate /= len(known_rates)
    return TableCell(rate(total_rate or math.nan))


def cores_cell(row_context: RowContext) -> TableCell:
    """The share of the cores of its host that is busy, and how many there are."""
    load = row_context.load
    if load is None or not load.cores:
        return TableCell(UNKNOWN)
    style = "table--warn" if load.cpu > FULL_SHARE else ""
    return TableCell(f"{percent(load.cpu)} of {number(load.cores)}", style)
