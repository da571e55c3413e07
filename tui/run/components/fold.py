"""Which columns of the table of ranks are left out, as they tell nothing of one rank. Pure but for
`FoldedColumns`, which remembers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from remote.format import UNKNOWN
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from tui.kit.widgets.table import TableCell
from tui.run.components.rank_columns import RankColumn

SPREAD = 0.05
"""Numbers are alike where they differ by at most this share of the greatest one."""
CALM = 10
"""Drawings for which ranks agree before a column goes; it comes back at once, and stays."""


class FoldedColumns:
    """Remembers for how long the ranks have agreed on each figure, so that no column comes and
    goes."""

    def __init__(self) -> None:
        self._calm = Counter[RankColumn]()
        self._kept: set[RankColumn] = set()

    def update(
        self, columns: Sequence[RankColumn], ranks: Sequence[RankState], run: RunState
    ) -> None:
        """Look at the ranks."""
        is_first_look = not self._calm
        for column in columns:
            if column.shared_value and are_alike(
                [column.shared_value(rank, run) for rank in ranks]
            ):
                # what is so at the first look needs no patience
                self._calm[column] += CALM + 1 if is_first_look else 1
                continue
            if self.has(column):
                self._kept.add(column)
            self._calm[column] = 0

    def has(self, column: RankColumn) -> bool:
        """Whether the column may go."""
        return column not in self._kept and self._calm[column] > CALM


def are_alike(values: Sequence[object]) -> bool:
    """Whether several ranks agree: on a number within `SPREAD`, on all else exactly."""
    if len(values) < 2:
        return False
    float_values = [value for value in values if isinstance(value, float)]
    # Words, or a mix: only equal ones are alike.
    if len(float_values) < len(values):
        return all(value == values[0] for value in values)
    if not all(map(math.isfinite, float_values)):
        return False
    return max(float_values) - min(float_values) <= SPREAD * max(map(abs, float_values))


def is_empty(cells: Sequence[TableCell]) -> bool:
    """Whether a column tells nothing of any row."""
    return all(cell.text in ("", UNKNOWN) for cell in cells)
