"""The grid of panels: every row is filled, however many panels it has."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from tui.panels import PANELS
from tui.panels.parts.grid import spans
from tui.panels.parts.panel import Panel, ScreenRow
from tui.screens.help import help_text


def panel(row: ScreenRow, share: int = 1) -> type[Panel]:
    return type("Some", (Panel,), {"row": row, "share": share})


@pytest.mark.parametrize("charts", range(1, 8))
def test_any_number_of_charts_fills_its_row(charts: int) -> None:
    top, bottom = [panel(ScreenRow.TOP, 2), panel(ScreenRow.TOP)], [panel(ScreenRow.BOTTOM)]
    kinds = [*top, *(panel(ScreenRow.MIDDLE) for _ in range(charts)), *bottom]
    columns, widths = spans(kinds)
    filled: Counter[ScreenRow] = Counter()
    for kind, width in zip(kinds, widths, strict=True):
        filled[kind.row] += width
    assert set(filled.values()) == {columns}
    assert widths[0] == 2 * widths[1]


def test_the_panels_of_a_row_stand_together_in_the_order_of_the_screen() -> None:
    assert [row for row, _ in groupby(PANELS, lambda kind: kind.row)] == list(ScreenRow)


def test_every_panel_is_in_the_help_with_its_keys() -> None:
    text = help_text()
    for kind in PANELS:
        assert kind.title in text
        assert kind.help in " ".join(text.split())
        assert all(key.help in text for key in kind.keys)
        assert all(callable(getattr(kind, key.action)) for key in kind.keys)
    assert max(map(len, text.splitlines())) <= 72
