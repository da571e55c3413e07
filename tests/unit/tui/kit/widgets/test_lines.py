"""Widgets on the line API return the rows that Textual itself would make of them."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult
from textual.geometry import Region
from textual.widget import Widget

from tui.kit.themes import InkedApp
from tui.kit.widgets.heat import HeatStrip
from tui.kit.widgets.lines import LineWidget
from tui.kit.widgets.table import CellTable, TableCell, TableColumn


class Shown(InkedApp[None]):
    CSS = """
    CellTable { height: 4; }
    HeatStrip { height: 2; background: red; }
    #framed { border: solid red; padding: 0 1; height: 6; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.table, self.framed, self.heat = CellTable(), CellTable(), HeatStrip()
        self.framed.id = "framed"

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.framed
        yield self.heat

    def on_mount(self) -> None:
        columns = TableColumn("rank", 5), TableColumn("state", 9, right=False)
        for table in (self.table, self.framed):
            rows = [
                (TableCell(str(number)), TableCell("trains", "table--good")) for number in range(8)
            ]
            table.fill(rows, columns)
        self.heat.fill([TableCell("x", "table--bad")] * 9, 8, 1)


@pytest.mark.parametrize("no_color", [False, True])
async def test_rows_are_those_of_textual(no_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1" if no_color else "")
    app = Shown()
    async with app.run_test(size=(40, 16)) as pilot:
        await pilot.pause()
        widgets: list[LineWidget] = [app.table, app.framed, app.heat]
        for widget in widgets:
            width, height = widget.outer_size
            for part in (Region(0, 0, width, height), Region(3, 1, width - 7, 1)):
                ours, textuals = widget.render_lines(part), Widget.render_lines(widget, part)
                assert [list(strip) for strip in ours] == [list(strip) for strip in textuals]
