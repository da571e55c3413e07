"""Ranks over time, or over one step: a line of cells for each rank. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from textual.content import Content

from remote.format import step_time
from remote.run.findings.rates import rank_means
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.widgets.table import TableCell
from tui.run.components.rank_cells import PHASES
from tui.run.components.rank_order import holds_up

LATE = (1.1, 1.25, 2.0)
"""Times the median of all ranks from which on a cell is darker, marked, and full."""
LATE_STYLES = ("table--dim", "table--dim", "table--warn", "table--warn")
"""The styles of a rank that was slow; cells of others are dim: on a busy machine each is late now
and then, which is nothing to act on."""
NAME_WIDTH = 16
"""Cells of the name of a rank at the most, with the gap behind it."""
VALUE_WIDTH = 8
"""Cells of the value behind the cells of a rank."""


NO_CELL = TableCell("")


class MapLine(Struct, frozen=True):
    """The line of a rank: its name, its cells in runs of one style, and its value."""

    name: TableCell
    cells: tuple[TableCell, ...] = ()
    value: TableCell = NO_CELL


def rank_names(ranks: Sequence[RankState], run: RunState) -> list[TableCell]:
    """Name the ranks, with their hosts if there are several, and a sign of those that are slow."""
    has_hosts = len(run.plan.hosts) > 1
    number_width = len(str(max((rank.rank for rank in ranks), default=0)))
    names = []
    for rank in ranks:
        host_name = f" {plain(run.host_name(rank.host))}" if has_hosts else ""
        is_late = holds_up(rank, run)
        sign = f" {palette.sign('slow')}" if is_late else ""
        name = f"{rank.rank:>{number_width}}{host_name}"[: NAME_WIDTH - 3] + sign
        names.append(TableCell(name, "table--warn" if is_late else ""))
    return names


def name_width(ranks: Sequence[RankState], run: RunState) -> int:
    """Return the cells that names take, with the gap behind them."""
    return max((len(name.text) for name in rank_names(ranks, run)), default=0) + 1


# Over time


def over_time(ranks: Sequence[RankState], run: RunState, figure: str, width: int) -> list[MapLine]:
    """Return how late each rank was, from the first step to the newest one: its `figure` against
    the median of these ranks at the same time."""
    values = _by_column(ranks, run, figure, width)
    with np.errstate(invalid="ignore", divide="ignore"):
        lateness = values / _median(values)
    levels = np.digitize(lateness, LATE)
    levels[np.isnan(lateness)] = -1
    slow_ranks = {episode.straggler.rank for episode in run.stragglers.episodes}
    return [
        MapLine(name, _runs_of(row, is_marked=rank.rank in slow_ranks))
        for name, row, rank in zip(rank_names(ranks, run), levels.tolist(), ranks, strict=True)
    ]


def lateness_scale() -> Content:
    """Return what the shades stand for, times the median of all ranks, and the ink of slow ones.

    There is no room for all: the shades between the second and the last one lie between both.
    """
    shades = [f"{palette.heat_sign(0)} alike"]
    shades += [f"{palette.heat_sign(level)} {LATE[level - 1]:g}x" for level in (1, len(LATE))]
    slow = f"{palette.heat_sign(len(LATE))} slow"
    return Content.assemble(f"busy {' '.join(shades)} ", (slow, "$text-warning"))


def _by_column(
    ranks: Sequence[RankState], run: RunState, figure: str, width: int
) -> NDArray[np.float64]:
    """Return the mean of a figure of each rank in each of `width` columns, (ranks, columns)."""
    num_columns = max(1, width)
    last_step = max((rank.step for rank in ranks), default=0) + 1
    values = np.full((len(ranks), num_columns), math.nan)
    for row, rank in enumerate(ranks):
        points = run.curves.of(figure, rank.rank)
        known = np.isfinite(points.mean) & (points.mean > 0)
        if not known.any():
            continue
        columns = (points.step[known] * num_columns / last_step).astype(int)
        columns = np.clip(columns, 0, num_columns - 1)
        sums = np.bincount(columns, points.mean[known], num_columns)
        counts = np.bincount(columns, minlength=num_columns)
        filled = counts > 0
        values[row, filled] = sums[filled] / counts[filled]
        # With fewer steps than columns, a step is wider than one.
        newest_filled = np.maximum.accumulate(np.where(filled, np.arange(num_columns), -1))
        is_before = (newest_filled >= 0) & (np.arange(num_columns) <= columns.max())
        values[row, is_before] = values[row, newest_filled[is_before]]
    return values


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each column over the ranks that have a value; NaN where none has."""
    if not len(values):
        return np.full(values.shape[1], math.nan)
    # Not `np.nanmedian`, which loads masked arrays and takes several times as long. NaN comes last.
    in_order = np.sort(values, axis=0)
    num_values = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    lower = in_order[np.maximum(num_values - 1, 0) // 2, columns]
    upper = in_order[num_values // 2, columns]
    medians: NDArray[np.float64] = (lower + upper) / 2
    return medians


def _runs_of(levels: Sequence[int], *, is_marked: bool) -> tuple[TableCell, ...]:
    """Join neighbours of one level, as each cell with a style of its own takes time to draw."""
    cells: list[TableCell] = []
    start = 0
    for index in range(1, len(levels) + 1):
        if index == len(levels) or levels[index] != levels[start]:
            level = levels[start]
            sign = palette.heat_sign(level) if level >= 0 else " "
            style = LATE_STYLES[level if is_marked else 0] if level >= 0 else ""
            cells.append(TableCell(sign * (index - start), style))
            start = index
    return tuple(cells)


# Over one step


def over_step(ranks: Sequence[RankState], run: RunState, width: int) -> list[MapLine]:
    """Return what each rank does in a step, all on one axis: the means that the table has."""
    means_of_ranks = [rank_means(rank) for rank in ranks]
    seconds_of_ranks = [
        [_finite(getattr(means, phase)) for phase in PHASES] for means in means_of_ranks
    ]
    longest = max(map(sum, seconds_of_ranks), default=0.0)
    lines = []
    for name, means, rank_seconds in zip(
        rank_names(ranks, run), means_of_ranks, seconds_of_ranks, strict=True
    ):
        cells: list[TableCell] = []
        end = 0
        passed = 0.0
        for phase, phase_seconds in zip(PHASES, rank_seconds, strict=True):
            passed += phase_seconds
            # A phase that takes time is seen, however short it is.
            new_end = max(
                round(width * (passed / longest)) if longest else 0, end + (phase_seconds > 0)
            )
            cells.append(TableCell(palette.sign(phase) * (new_end - end), f"table--{phase}"))
            end = new_end
        lines.append(MapLine(name, tuple(cells), TableCell(step_time(means.seconds))))
    return lines


def step_heading() -> MapLine:
    """Return the line above the steps, where they stand below the map over time."""
    parts: list[tuple[str, str]] = []
    for phase in PHASES:
        parts += [("  ", ""), (palette.sign(phase), f"table--{phase}"), (f" {phase}", "")]
    text = "".join(text for text, _ in parts)
    return MapLine(TableCell("one step", "table--head"), value=TableCell(text, parts=tuple(parts)))


def _finite(seconds: float) -> float:
    """Return the time of a phase; 0 where it is not known, or no time that a step can take."""
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
