"""The columns of the table of ranks, and what each of them tells."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from remote.cluster.hosts import is_loopback
from remote.format import (
    UNKNOWN,
    fixed,
    percent,
    rate,
    short_size,
    step_time,
)
from remote.plan.plan import Plan
from remote.run.findings.rates import rank_means
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from training.wire.host_events import HostSample
from tui.kit.widgets.table import TableCell, TableColumn
from tui.run.components.rank_cells import (
    PHASES_WIDTH,
    TREND_STEPS,
    MakeCell,
    RankFigure,
    RowContext,
    call_cell,
    cores_cell,
    exchanges,
    heard_cell,
    host_cell,
    loss_cell,
    number_cell,
    rank_accuracy,
    ready_cell,
    samples_cell,
    samples_per_second,
    split_cell,
    state_cell,
    step_cell,
    trend_cell,
)
from tui.run.components.rank_order import UNMARKED, severity

MAX_HOST_WIDTH = 24
"""Cells of the name of a host at the most."""


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


def _gpu_use(rank: RankState) -> float:
    return rank.gpu.use / 100 if rank.gpu else math.nan


def _gpu_memory(rank: RankState) -> float:
    return float(rank.gpu.memory_used) if rank.gpu else math.nan


def _mean_seconds(rank: RankState) -> float:
    return rank_means(rank).seconds


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
                dim_parts = tuple((text, "table--dim") for text, _ in usual_cell.parts)
                return replace(usual_cell, style=usual_cell.style or "table--dim", parts=dim_parts)
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


def _num_calls(rank: RankState) -> float:
    return float(rank.collectives.count) if exchanges(rank) else math.nan


def has_own_hosts(plan: Plan) -> bool:
    """Return True if each rank has a host of its own: then hosts need no table."""
    return 1 < len(plan.hosts) == plan.world_size


def _counts_traffic(plan: Plan) -> bool:
    # Agents count no loopback, over which all traffic of one machine goes.
    return has_own_hosts(plan) and not all(is_loopback(host.address) for host in plan.hosts)


def _traffic_column(title: str, value: Callable[[HostSample], int]) -> RankColumn:
    """Return a column of what the host of a rank passes to the network, or gets from it."""

    def cell(row_context: RowContext) -> TableCell:
        host = row_context.run.hosts[row_context.rank.host]
        return TableCell(short_size(value(host.sample)))

    return RankColumn(TableColumn(title, 7), cell, _counts_traffic)


RANK_COLUMNS = (
    RankColumn(TableColumn("rank", 5), number_cell),
    RankColumn(
        TableColumn("host", 5, right=False, most=MAX_HOST_WIDTH + 1),
        host_cell,
        lambda plan: len(plan.hosts) > 1,
    ),
    RankColumn(
        TableColumn("state", 13, right=False, most=24),
        lambda row_context: state_cell(row_context.rank, row_context.run, row_context.now),
        # A marked rank agrees with nobody, by its number, so that its state stays in the table.
        shared_value=lambda rank, run: rank.doing if severity(rank, run) == UNMARKED else rank.rank,
    ),
    RankColumn(TableColumn("last seen", 10), heard_cell),
    RankColumn(TableColumn("step", 7), step_cell),
    _of_steps(RankColumn(TableColumn("loss", 7), loss_cell)),
    _of_steps(_mean_column("per step", 9, step_time, _mean_seconds, "per step")),
    _of_steps(RankColumn(TableColumn("busy", 7), ready_cell)),
    RankColumn(
        TableColumn("busy trend", 11, right=False, most=TREND_STEPS + 1, tail=True), trend_cell
    ),
    _of_steps(RankColumn(TableColumn("phases", PHASES_WIDTH, right=False), split_cell)),
    _sum_column("calls", 7, rate, _num_calls),
    _mean_column("blocked", 8, percent, _per_second_of_calls("seconds")),
    _sum_column("exch/s", 7, short_size, _per_second_of_calls("bytes")),
    RankColumn(TableColumn("last call", 10, right=False, most=24), call_cell),
    RankColumn(TableColumn("CPU of cores", 13), cores_cell, has_own_hosts),
    replace(
        _sum_column("CPU cores", 10, lambda cores: fixed(cores, 2), lambda rank: rank.cpu / 100),
        where=lambda plan: not has_own_hosts(plan),
    ),
    _mean_column("GPU", 5, percent, _gpu_use),
    _sum_column("GPU mem", 8, short_size, _gpu_memory, "GPU memory"),
    _of_steps(
        replace(
            _sum_column("samples/s", 10, rate, samples_per_second, "samples/s"), cell=samples_cell
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
    "busy": "median time of its last steps without waits for others",
    "busy trend": "busy at each of the last steps",
    "phases": "how a step splits, with the longest part",
    "calls": "calls of torch.distributed",
    "blocked": "share of the time that calls take",
    "exch/s": "bytes that calls exchange per second",
    "last call": "the newest call",
    "CPU of cores": "busy share of the cores of its host",
    "CPU cores": "cores that the rank keeps busy",
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
