"""Only what has changed is asked for, and the screen is the same as if all were drawn."""

from __future__ import annotations

import random
from collections import defaultdict

from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.containers import Container
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tui.kit.widgets.compositor import Sparing

WIDTH, HEIGHT = 60, 16
TURNS = 150


class Area(Widget):
    """A sign in each cell. `asked` are the rows that it was asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.cells: defaultdict[tuple[int, int], str] = defaultdict(lambda: "_")
        self.asked: list[int] = []

    def put(self, region: Region, sign: str) -> None:
        """Write a sign into a region."""
        for x in region.column_range:
            for y in region.line_range:
                self.cells[x, y] = sign
        self.refresh(region)

    def render_line(self, y: int) -> Strip:
        self.asked.append(y)
        text = "".join(self.cells[x, y] for x in range(self.size.width))
        return Strip([Segment(text)], len(text))


class Areas(Screen[None]):
    """Two areas beside each other in a frame, and one that covers a part of both."""

    CSS = """
    Areas { layers: below above; }
    #frame { layout: horizontal; layer: below; border: solid red; }
    #left, #right { width: 1fr; height: 1fr; }
    #above { layer: above; offset: 20 4; width: 20; height: 5; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = Sparing()

    def compose(self) -> ComposeResult:
        with Container(id="frame"):
            yield Area("left")
            yield Area("right")
        yield Area("above")


class Shown(App[None]):
    """What the updates leave on the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = [[" "] * WIDTH for _ in range(HEIGHT)]

    def on_mount(self) -> None:
        self.push_screen(Areas())

    def take(self) -> None:
        """Draw what has changed."""
        screen = self.screen
        changed = {area for area in screen.query(Area) if area._repaint_regions}
        screen._compositor.update_widgets({*changed})
        update = screen._compositor.render_partial_update()
        for y, left, right in update.spans if update else ():
            for x, strip in update.chops[y].items():
                for place, sign in enumerate(strip.text if strip else "", x):
                    if left <= place < right:
                        self.rows[y][place] = sign


async def test_the_screen_is_the_same_as_if_all_were_drawn() -> None:
    dice = random.Random(7)
    app = Shown()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        await pilot.pause()
        app.rows = [list(strip.text) for strip in app.screen._compositor.render_strips()]
        areas = list(app.screen.query(Area))
        for turn in range(TURNS):
            for area in dice.choices(areas, k=dice.randrange(1, 4)):
                x, y = (dice.randrange(length) for length in area.size)
                width, height = dice.randrange(1, area.size.width - x + 1), dice.randrange(1, 4)
                area.put(Region(x, y, width, min(height, area.size.height - y)), dice.choice("abc"))
            app.take()
            drawn = ["".join(row) for row in app.rows]
            assert drawn == [one.text for one in app.screen._compositor.render_strips()], turn


async def test_only_changed_rows_that_are_seen_are_asked_for() -> None:
    app = Shown()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        await pilot.pause()
        left, right, above = app.screen.query(Area)
        for area in (left, right, above):
            area.asked.clear()
        left.put(Region(0, 2, 3, 1), "a")
        right.put(Region(0, 11, 3, 2), "b")
        left.put(Region(20, 5, 8, 1), "hidden")
        app.take()
        assert (left.asked, right.asked, above.asked) == ([2], [11, 12], [])


async def test_there_is_nothing_to_draw_where_nothing_has_changed() -> None:
    app = Shown()
    async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
        await pilot.pause()
        app.screen._compositor._dirty_regions.clear()
        assert app.screen._compositor.render_partial_update() is None
