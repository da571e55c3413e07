"""The heat strip: a cell for each rank, as high as the rank is late, or with the sign of its
state."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from remote.run.findings.stall import rank_word
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import RankState
from tui.kit import palette
from tui.kit.widgets.heat import CELLS_PER_BLOCK, LABEL_WIDTH
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell
from tui.run.components.rank_order import SLOW, severity

MIN_RANKS = 16
"""Ranks from which on there is a strip."""
LOWEST = 0.75
HIGHEST = 2.0
"""Times the median `ready`: a cell is empty at the first and full at the second."""


class HeatGrid(Struct, frozen=True):
    """How ranks are laid out: `ranks` in a cell, `cells` in a line, in that many `lines`."""

    ranks: int
    cells: int
    lines: int


def heat_grid(ranks: int, width: int, height: int) -> HeatGrid:
    """Lay out ranks in a room.

    Lines hold a power of two times `CELLS_PER_BLOCK` cells, so each begins with a round number.
    If there is no room for all, several ranks share a cell.
    """
    num_blocks = max(1, (width - LABEL_WIDTH) // (CELLS_PER_BLOCK + 1))
    cells_per_line = CELLS_PER_BLOCK * 2 ** int(math.log2(num_blocks))
    ranks_per_cell = 1
    # A power of two, so that each line still begins with a round number.
    while ranks > ranks_per_cell * cells_per_line * max(1, height):
        ranks_per_cell *= 2
    return HeatGrid(
        ranks_per_cell, cells_per_line, max(1, math.ceil(ranks / ranks_per_cell / cells_per_line))
    )


def heat_cells(
    ranks: Sequence[RankState],
    run: RunState,
    ready_medians: Sequence[float],
    typical_ready: float,
    ranks_per_cell: int,
) -> list[TableCell]:
    """Return the cells: each shows that one of its ranks which needs most to be seen.

    `ready_medians` are those of the ranks, `typical_ready` that of all, 0 where it is not known.
    """
    ranked_cells = [
        (severity(rank, run), -_lateness(rank, value, typical_ready), rank.rank)
        for rank, value in zip(ranks, ready_medians, strict=True)
    ]
    cells = []
    for first_rank in range(0, len(ranks), ranks_per_cell):
        # The most severe comes first, then the latest, whose lateness is negative for that.
        worst_mark, lateness, rank_number = min(
            ranked_cells[first_rank : first_rank + ranks_per_cell]
        )
        cells.append(_cell(ranks[rank_number], run, worst_mark, -lateness))
    return cells


def _lateness(rank: RankState, ready_medians: float, typical_ready: float) -> float:
    """The `ready` of a rank that trains, in multiples of the median; else 0."""
    if not (typical_ready > 0 and ready_medians > 0) or rank.doing != RankPhase.TRAINING:
        return 0.0
    return ready_medians / typical_ready


def _cell(rank: RankState, run: RunState, mark: int, lateness: float) -> TableCell:
    if not lateness:
        # The text of a phase begins with its sign.
        state_cell = phase_cell(rank_word(rank, run))
        return TableCell(state_cell.text[0], state_cell.style)
    if mark == SLOW:
        return TableCell(palette.sign("slow"), "table--warn")
    level_sign = palette.level_sign((lateness - LOWEST) / (HIGHEST - LOWEST))
    return TableCell(level_sign, "table--good")
