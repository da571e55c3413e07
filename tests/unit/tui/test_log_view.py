"""The log view: filter, follow, and text that is never obeyed."""

from __future__ import annotations

from collections import deque

from rich.cells import cell_len
from textual.app import App, ComposeResult

from remote.run.state import LogLine
from tui.widgets import log_view
from tui.widgets.log_view import LogView, plain


class Feed(App[None]):
    """A log view and the log that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[LogLine] = deque(maxlen=20_000)
        self.count = 0

    def compose(self) -> ComposeResult:
        yield LogView()

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def add(self, number: int, text: str = "", ranks: int = 4, stream: str = "stdout") -> None:
        for _ in range(number):
            words = text or f"line {self.count}"
            self.lines.append(LogLine(self.count, 0.0, "node1", self.count % ranks, stream, words))
            self.count += 1
        self.view.show(self.lines, self.count)

    def shown(self) -> list[str]:
        return [self.view.render_line(row).text.rstrip() for row in range(self.view.size.height)]


async def test_it_follows_the_newest_line() -> None:
    app = Feed()
    async with app.run_test(size=(40, 10)) as pilot:
        app.add(100)
        await pilot.pause()
        assert app.shown()[-1] == "  3 │ line 99"
        app.add(1)
        await pilot.pause()
        assert app.shown()[-1] == "  0 │ line 100"


async def test_scrolling_up_pauses_and_counts_and_the_end_resumes() -> None:
    app = Feed()
    async with app.run_test(size=(40, 10)) as pilot:
        app.add(100)
        await pilot.pause()
        app.view.scroll_to(y=50, animate=False)
        await pilot.pause()
        assert not app.view.follow
        before = app.shown()
        app.add(7)
        await pilot.pause()
        assert app.shown() == before
        assert app.view.unseen == 7
        app.view.scroll_end(animate=False)
        await pilot.pause()
        assert app.view.follow
        assert app.view.unseen == 0
        assert app.shown()[-1].endswith("line 106")


async def test_more_lines_do_not_lay_out_the_screen_anew() -> None:
    app = Feed()
    async with app.run_test(size=(40, 10)) as pilot:
        app.add(100)
        for _ in range(5):  # a pause ends with what begins the layout of the first lines
            await pilot.pause()
        layouts: list[object] = []
        app.screen.screen_layout_refresh_signal.subscribe(app.view, layouts.append)
        app.add(7)
        await pilot.pause()
        assert app.shown()[-1].endswith("line 106")
        assert app.view.vertical_scrollbar.window_virtual_size == 107
        assert not layouts


async def test_only_one_rank() -> None:
    app = Feed()
    async with app.run_test(size=(40, 10)) as pilot:
        app.add(40)
        app.view.rank = 2
        await pilot.pause()
        assert app.shown()[-1] == "  2 │ line 38"
        assert all(line.startswith("  2") for line in app.shown())
        app.add(4)
        await pilot.pause()
        assert app.shown()[-1] == "  2 │ line 42"
        app.view.rank = None
        await pilot.pause()
        assert app.shown()[-1] == "  3 │ line 43"


async def test_hosts_and_session_have_their_lines() -> None:
    app = Feed()
    async with app.run_test(size=(60, 10)) as pilot:
        app.lines.append(LogLine(0, 0.0, "node1", -1, "note", "connecting"))
        app.lines.append(LogLine(1, 0.0, "", -1, "note", "stopped by the operator"))
        app.view.show(app.lines, 2)
        await pilot.pause()
        assert app.shown()[:2] == ["    │ node1: connecting", "    │ stopped by the operator"]


async def test_old_lines_go_and_the_reader_stays_where_he_is(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(log_view, "KEPT", 200)
    app = Feed()
    async with app.run_test(size=(40, 10)) as pilot:
        app.add(150)
        await pilot.pause()
        app.view.scroll_to(y=120, animate=False)
        await pilot.pause()
        before = app.shown()
        app.add(60)
        await pilot.pause()
        assert app.view.virtual_size.height == 180
        assert app.shown() == before


async def test_more_lines_than_the_log_holds_between_two_looks() -> None:
    app = Feed()
    app.lines = deque(maxlen=50)
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.show(app.lines, 0)
        app.add(500)
        await pilot.pause()
        assert app.shown()[-1].endswith("line 499")
        assert app.view.virtual_size.height == 50


async def test_markup_and_controls_are_only_text() -> None:
    app = Feed()
    async with app.run_test(size=(60, 10)) as pilot:
        app.add(1, "[red]no[/red] \x1b[31mcolour\x1b[0m \x07bell \u202eturned \ud800half")
        await pilot.pause()
        assert app.shown()[0] == "  0 │ [red]no[/red] [31mcolour[0m bell turned half"


async def test_wide_characters_take_two_cells() -> None:
    app = Feed()
    async with app.run_test(size=(20, 5)) as pilot:
        app.add(3, "漢字" * 20)
        await pilot.pause()
        for left in range(0, 20, 3):
            app.view.scroll_to(x=left, animate=False)
            await pilot.pause()
            for row in range(5):
                assert cell_len(app.view.render_line(row).text) == app.view.size.width


async def test_any_size() -> None:
    app = Feed()
    async with app.run_test(size=(20, 5)) as pilot:
        for width, height in [(1, 1), (2, 1), (1, 20), (80, 24), (3, 3), (200, 60)]:
            await pilot.resize_terminal(width, height)
            app.add(30)
            app.view.rank = None if width % 2 else 1
            await pilot.pause()
            for row in range(height):
                app.view.render_line(row)


def test_a_very_long_line_is_cut() -> None:
    assert len(plain("x" * 1_000_000)) == log_view.LONGEST + 1
