"""Only changed cells are written, and the terminal shows the same as if all were."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from tui.kit.widgets.changes import ChangedCells, TerminalCells

WIDTH, HEIGHT = 60, 8
CONSOLE = Console(color_system="truecolor", force_terminal=True)
STYLES = [Style(), Style(bold=True), Style(color="red"), Style(color="#00ff00", bgcolor="#102030")]
SEQUENCE = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|(.)", re.DOTALL)


class Screen:
    """A terminal that knows as much as these tests need."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def feed(self, drawn: str) -> None:
        x = y = 0
        ink = ""
        for row, column, style, text in SEQUENCE.findall(drawn):
            if row:
                y, x = int(row), int(column)
            elif text and text != "\n":
                self.cells[y, x] = (text, ink)
                x += cell_len(text)
            elif not text:
                ink = "" if style in ("", "0") else style


def strip(text: str, styles: Sequence[Style]) -> Strip:
    half = len(text) // 2
    return Strip([Segment(text[:half], styles[0]), Segment(text[half:], styles[1])])


def update(row: int, cut: int, rest: Strip, first: Strip) -> ChopsUpdate:
    """An update of one row of two pieces."""
    chops: list[dict[int, Strip | None]] = [{} for _ in range(HEIGHT)]
    chops[row] = {0: first, cut: rest}
    ends = [[cut, WIDTH] for _ in range(HEIGHT)]
    return ChopsUpdate(chops, [(row, 0, WIDTH)], ends)


def random_update(chance: random.Random) -> ChopsUpdate:
    cut = chance.randrange(5, WIDTH - 5)
    texts = ["".join(chance.choice("ab ") for _ in range(length)) for length in (cut, WIDTH - cut)]
    if chance.random() < 0.2:
        texts[1] = chance.choice(("字", "字e\u0301", "e\u0301a")) + texts[1][2:]
    first, rest = (strip(text, chance.choices(STYLES, k=2)) for text in texts)
    return update(chance.randrange(HEIGHT), cut, rest, first)


def test_the_screen_is_the_same_as_if_all_were_written() -> None:
    chance, written = random.Random(5), TerminalCells()
    whole, changed = Screen(), Screen()
    for turn in range(400):
        if turn % 97 == 0:
            written.forget()
        one = random_update(chance)
        whole.feed(one.render_segments(CONSOLE))
        changed.feed(ChangedCells(one, written).render_segments(CONSOLE))
        assert changed.cells == whole.cells


def drawn(written: TerminalCells, text: str, style: Style = STYLES[2]) -> str:
    one = update(2, 10, strip(text[10:], (style, style)), strip(text[:10], (style, style)))
    return ChangedCells(one, written).render_segments(CONSOLE)


def test_what_has_not_changed_is_not_written() -> None:
    written = TerminalCells()
    text = "step 100/400 and a long rest of the row".ljust(WIDTH)
    assert "long rest" in drawn(written, text)
    assert drawn(written, text) == ""
    assert drawn(written, text, Style(color="red")) == "", "an equal style"
    one = drawn(written, text.replace("100", "101"))
    assert one == "\x1b[3;8H\x1b[31m1\x1b[0m"
    assert "long rest" in drawn(written, text.replace("100", "101"), STYLES[1])
    written.forget()
    assert "long rest" in drawn(written, text, STYLES[1])


@pytest.mark.parametrize(("changed", "moves"), [((3, 9), 1), ((3, 40), 2)])
def test_a_small_gap_is_written_along(changed: tuple[int, int], moves: int) -> None:
    written, row = TerminalCells(), ["a"] * WIDTH
    drawn(written, "".join(row))
    for place in changed:
        row[place] = "b"
    assert drawn(written, "".join(row)).count("H") == moves
