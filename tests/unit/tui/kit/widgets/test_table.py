"""Tables: which columns are shown, and that nothing of a number is cut off."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult

from tests.kit.acted import until
from tests.kit.looks import screen_text
from tui.kit.themes import InkedApp
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.table import (
    CellTable,
    TableCell,
    TableColumn,
    choose_columns,
    fit_column,
    max_skipped,
)

COLUMNS = [
    TableColumn("rank", 5),
    TableColumn("loss", 7),
    TableColumn("memory", 8),
    TableColumn("CPU", 6),
]


@pytest.mark.parametrize(
    ("room", "skipped", "shown", "before", "behind"),
    [
        (26, 0, [0, 1, 2, 3], False, False),
        (25, 0, [0, 1, 2], False, True),
        (20, 0, [0, 1], False, True),  # the sign of more takes a cell
        (21, 0, [0, 1, 2], False, True),
        (20, 1, [0, 2, 3], True, False),
        (12, 2, [0, 3], True, False),
        (12, 1, [0], True, True),
        (3, 0, [0], False, True),
        (1, 2, [0], True, True),
    ],
)
def test_only_whole_columns_are_shown(
    room: int, skipped: int, shown: list[int], before: bool, behind: bool
) -> None:
    found = choose_columns(COLUMNS, room, skipped)
    assert found.columns == shown
    assert (found.has_columns_before, found.has_columns_behind) == (before, behind)
    assert room < 5 or sum(found.widths) <= room - behind


@pytest.mark.parametrize("room", range(1, 40))
def test_each_column_can_be_reached(room: int) -> None:
    most = max_skipped(COLUMNS, room)
    seen = {
        number for skip in range(most + 1) for number in choose_columns(COLUMNS, room, skip).columns
    }
    wide = {number for number, column in enumerate(COLUMNS) if column.width <= room - 5}
    assert seen >= wide - ({1, 2} if room < 14 else set())
    last = choose_columns(COLUMNS, room, most)
    assert not last.has_columns_behind or room < 11


def test_no_columns() -> None:
    assert choose_columns([], 80).columns == []
    assert max_skipped([], 80) == 0


def test_a_column_is_as_wide_as_its_longest_cell_within_its_bounds() -> None:
    cells = [TableCell("12"), TableCell("1234567")]
    assert fit_column(TableColumn("x", 4), cells).width == 8
    assert fit_column(TableColumn("x", 10), cells).width == 10
    assert fit_column(TableColumn("x", 2, most=6), cells).width == 6
    assert fit_column(TableColumn("x", 2, most=6), cells, 5).width == 5
    assert fit_column(TableColumn("x", 3), []).width == 3


class Shown(InkedApp[None]):
    def compose(self) -> ComposeResult:
        yield CellTable(
            [TableColumn("rank", 5), TableColumn("trend", 6, right=False, tail=True), *COLUMNS[1:]]
        )

    @property
    def lines(self) -> list[str]:
        return screen_text(self).splitlines()


async def test_the_first_column_stays_and_signs_tell_of_columns_where_keys_go_there() -> None:
    app = Shown()
    async with app.run_test(size=(20, 5)) as pilot:
        table = app.query_one(CellTable)
        row = tuple(map(TableCell, ("7", "abcdefgh", "0.25", "480M", "97%")))
        table.fill([row])
        await until(pilot, lambda: "loss" in app.lines[0])
        app.screen.set_focus(None)
        await until(pilot, lambda: "›" not in app.lines[0])
        assert app.lines[1].rstrip() == "   7 defgh   0.25"  # of a trend the end
        app.screen.set_focus(table)
        await until(pilot, lambda: app.lines[0].rstrip() == "rank trend   loss  ›")
        await until(pilot, lambda: table.allow_horizontal_scroll)
        await pilot.press("right")
        await until(pilot, lambda: "memory" not in app.lines[0] and "trend" not in app.lines[0])
        assert app.lines[0].split() == ["rank‹", "loss", "›"]
        await pilot.press("right")
        await until(pilot, lambda: "97%" in app.lines[1])
        assert app.lines[1].split() == ["7", "480M", "97%"]
        assert "›" not in app.lines[0]


async def test_any_size() -> None:
    app = Shown()
    async with app.run_test(size=(20, 5)) as pilot:
        table = app.query_one(CellTable)
        app.screen.set_focus(table)
        for width, height in ((1, 1), (2, 1), (5, 2), (11, 3), (300, 100), (6, 1), (20, 5)):
            await pilot.resize_terminal(width, height)
            table.fill([tuple(map(TableCell, "1🎉345"))] * 50)
            await pilot.press("right", "end", "left", "pageup")
            assert all(len(line) >= min(width, 1) for line in app.lines)


class Chosen(InkedApp[None]):
    def compose(self) -> ComposeResult:
        yield ChoiceTable()


@pytest.mark.parametrize(("term", "is_drawn"), [("", False), ("truecolor", True)])
async def test_with_16_colours_the_chosen_row_has_one(
    term: str, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLORTERM", term)
    app = Chosen()
    async with app.run_test(size=(20, 5)) as pilot:
        table = app.query_one(ChoiceTable)
        table.show([TableColumn("state", 5, right=False)], [(TableCell("good", "#00FF00"),)])
        await pilot.pause()
        inks = [part.style.color for part in table.render_line(1) if part.text.startswith("good")]
        green = [ink is not None and ink.name == "#00ff00" for ink in inks]
        assert green == [is_drawn]
