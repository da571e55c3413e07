"""How many columns the grid of panels has, and how many of them each panel spans. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tui.panels.parts.panel import Panel


def spans(kinds: Sequence[type[Panel]]) -> tuple[int, list[int]]:
    """Divide every row among its panels by their shares.

    Returns the number of columns, and the span of each panel; the spans of a row fill all columns.
    """
    shares: Counter[object] = Counter()
    for kind in kinds:
        shares[kind.row] += kind.share
    columns = math.lcm(*shares.values())
    return columns, [kind.share * columns // shares[kind.row] for kind in kinds]
