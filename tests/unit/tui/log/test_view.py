"""The log view: news, filter, search, follow, wraps, selection, and text that is never obeyed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from operator import attrgetter

import pytest
from msgspec import structs
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from remote.limits import LIMITS
from remote.run.output import run_log as log
from remote.run.output.log_levels import Level
from remote.run.output.run_log import RunLog
from remote.run.state.types import LogLine
from remote.sanitise import LONGEST_DRAWN, plain
from tests.kit.acted import until
from tui.kit.themes import InkedApp
from tui.log import rows as rows
from tui.log.row_layout import RowLayout
from tui.log.view import LogView

ROUTINE = "epoch 1 step 20/938 loss 0.3123 acc 0.91 0.041 s/iter"


class Feed(InkedApp[None]):
    """A log view and the log that it reads."""

    def __init__(self, ranks: int = 4) -> None:
        super().__init__()
        self.printed = RunLog(LIMITS, is_job=True)
        self.ranks = ranks

    def compose(self) -> ComposeResult:
        view = LogView()
        view.times = False
        yield view

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def add(self, number: int, text: str = "", stream: str = "stdout") -> None:
        """So many lines, each of the next rank."""
        for _ in range(number):
            count = self.printed.count
            self.printed.add(1000.0, "node1", count % self.ranks, stream, text or f"line {count}")
        self.show()

    def say(self, rank: int, text: str, stream: str = "stdout") -> None:
        self.printed.add(1000.0, "node1", rank, stream, text)
        self.show()

    def show(self) -> None:
        self.view.show(self.printed, self.ranks)

    def set(self, **settings: object) -> None:
        self.view.filter = structs.replace(self.view.filter, **settings)  # type: ignore[arg-type]

    def shown(self) -> list[str]:
        return [self.view.render_line(row).text.rstrip() for row in range(self.view.size.height)]


@asynccontextmanager
async def feed(
    size: tuple[int, int] = (40, 10), ranks: int = 4
) -> AsyncIterator[tuple[Feed, Pilot[None]]]:
    """A log view in a terminal of `size`."""
    app = Feed(ranks)
    async with app.run_test(size=size) as pilot:
        yield app, pilot


async def test_it_follows_the_newest_line() -> None:
    async with feed() as (app, pilot):
        app.add(100)
        await pilot.pause()
        assert app.shown()[-1] == "  [3] line 99"
        app.add(1)
        await pilot.pause()
        assert app.shown()[-1] == "  [0] line 100"


async def test_scrolling_up_pauses_and_counts_and_the_end_resumes() -> None:
    async with feed() as (app, pilot):
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
    async with feed() as (app, pilot):
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


# News


async def test_routine_lines_are_hidden_and_counted() -> None:
    async with feed(size=(70, 6)) as (app, pilot):
        app.add(8, ROUTINE)
        app.say(2, "hello")
        await pilot.pause()
        assert app.shown()[0] == "  [2] hello"
        assert app.view.rows.hidden == 8
        app.set(rank=1)
        await pilot.pause()
        assert app.shown()[0] == ""
        assert app.view.rows.hidden == 2
        app.set(rank=None, news=False)
        await pilot.pause()
        assert app.shown()[-1] == "  [2] hello"
        assert app.shown()[-2] == f"  [3] {ROUTINE}"


async def test_equal_lines_of_ranks_are_one_row_that_stays_where_it_is() -> None:
    async with feed(size=(30, 10)) as (app, pilot):
        app.say(0, "loading\nready")
        app.say(1, "loading")
        await pilot.pause()
        assert app.shown()[:2] == ["[0-1] loading               x2", "  [0] ready"]
        app.say(3, "loading")
        await pilot.pause()
        assert app.shown()[:3] == ["[0…3] loading               x3", "  [0] ready", ""]
        app.set(news=False)
        await pilot.pause()
        assert [line for line in app.shown() if line] == [
            "  [0] loading",
            "  [0] ready",
            "  [1] loading",
            "  [3] loading",
        ]


async def test_a_row_that_comes_to_stand_for_more_leaves_the_reader_where_he_is() -> None:
    async with feed(size=(40, 5), ranks=2) as (app, pilot):
        for number in range(40):
            app.say(0, f"line {number}")
        await pilot.pause()
        app.view.scroll_to(y=10, animate=False)
        await pilot.pause()
        app.say(1, "line 12")
        await pilot.pause()
        assert app.shown()[2] == f"[0-1] {'line 12':30} x2"
        assert not app.view.follow
        assert app.view.unseen == 0


async def test_a_rank_that_names_itself_is_named_once() -> None:
    async with feed(size=(60, 5)) as (app, pilot):
        app.say(1, "[rank1]: Traceback (most recent call last):\nRank: 1 Epoch: 2", "stderr")
        await pilot.pause()
        assert app.shown()[:2] == ["  [1] Traceback (most recent call last):", "  [1] Epoch: 2"]


# Filter


async def test_only_one_rank() -> None:
    async with feed() as (app, pilot):
        app.add(40)
        app.set(rank=2)
        await pilot.pause()
        assert app.shown()[-1] == "  [2] line 38"
        assert all(line.startswith("  [2]") for line in app.shown())
        app.add(4)
        await pilot.pause()
        assert app.shown()[-1] == "  [2] line 42"
        app.set(rank=None)
        await pilot.pause()
        assert app.shown()[-1] == "  [3] line 43"


async def test_only_errors_and_only_a_pattern() -> None:
    async with feed(size=(60, 10)) as (app, pilot):
        app.say(0, "fine\nWARNING: slow\nTraceback (most recent call last):\n  main()\nKeyError: 3")
        app.set(level=Level.WARNING)
        await pilot.pause()
        assert [line[6:] for line in app.shown() if line] == [
            "WARNING: slow",
            "Traceback (most recent call last):",
            "  main()",
            "KeyError: 3",
        ]
        app.set(level=Level.ERROR, pattern=re.compile("main|slow"))
        await pilot.pause()
        assert [line[6:] for line in app.shown() if line] == ["  main()"]
        app.say(1, "KeyError: main\nfine: main")
        await pilot.pause()
        assert [line[6:] for line in app.shown() if line] == ["  main()", "KeyError: main"]


async def test_another_filter_leaves_the_reader_where_he_is() -> None:
    async with feed() as (app, pilot):
        app.add(100)
        await pilot.pause()
        app.view.scroll_to(y=50, animate=False)
        await pilot.pause()
        app.set(rank=1)
        await pilot.pause()
        assert app.shown()[0] == "  [1] line 53"
        assert not app.view.follow


async def test_hosts_and_session_have_their_lines() -> None:
    async with feed(size=(60, 10)) as (app, pilot):
        app.printed.note(1000.0, "node1", "connecting")
        app.printed.note(1000.0, "", "stopped by the user")
        app.show()
        await pilot.pause()
        assert app.shown()[:2] == ["      node1: connecting", "      stopped by the user"]


# Search


async def test_next_and_previous_match_go_around() -> None:
    async with feed() as (app, pilot):
        app.add(200)
        await pilot.pause()
        app.view.search = re.compile("line 1?20$")
        found = []
        for step in (-1, -1, -1, 1, 1):
            line = app.view.next_match(step)
            assert line
            app.view.go_to(line.number)
            await pilot.pause()
            found.append(line.text)
            assert f"[0] {line.text}" in "".join(app.shown())
            assert not app.view.follow
        assert found == ["line 120", "line 20", "line 120", "line 20", "line 120"]
        assert app.view.rows.matches == 2
        app.say(0, "line 20")
        assert app.view.rows.matches == 3
        app.set(rank=1)
        assert app.view.rows.matches == 0
        assert app.view.next_match(1) is None


async def test_what_is_found_is_marked() -> None:
    async with feed(size=(40, 3)) as (app, pilot):
        app.say(0, "one two one")
        app.view.search = re.compile("one")
        await pilot.pause()
        marked = [
            segment.text
            for segment in app.view.render_line(0)
            if segment.style and segment.style.reverse
        ]
        assert marked == ["one", "one"]


async def test_the_current_row_stands_out_from_edge_to_edge_and_keeps_its_colours() -> None:
    async with feed(size=(40, 3)) as (app, pilot):
        app.say(0, "plain")
        app.say(1, "error", "stderr")
        await pilot.pause()
        plain_style, before = (app.view.render_line(row)._segments[-2].style for row in (0, 1))
        assert plain_style
        assert before
        assert plain_style.bgcolor == before.bgcolor == app.view.rich_style.bgcolor
        app.view.go_to(1)
        await pilot.pause()
        styles = [segment.style for segment in app.view.render_line(1)]
        assert len({style.bgcolor for style in styles if style}) == 1
        assert all(style and style.bgcolor != before.bgcolor for style in styles)
        assert before.color in {style.color for style in styles if style}


# Wrapping


async def test_long_lines_go_on_below() -> None:
    async with feed(size=(30, 8)) as (app, pilot):
        app.view.wrap = True
        app.say(0, "a" * 25 + "b" * 20)
        app.say(1, "漢字" * 10)
        app.say(2, "short")
        await pilot.pause()
        assert app.shown()[:5] == [
            f"  [0] {'a' * 21}",
            f"      {'a' * 4}{'b' * 17}",
            "      bbb",
            "  [1] 漢字漢字漢字漢字漢字",
            "      漢字漢字漢字漢字漢字",
        ]
        assert app.shown()[5] == "  [2] short"
        app.say(3, "a" * 25 + "b" * 20)
        await pilot.pause()
        assert app.shown()[0] == f"[0,3] {'a' * 21} x2"
        await pilot.resize_terminal(60, 8)
        wide = f"[0,3] {'a' * 25 + 'b' * 20:51} x2"
        await until(pilot, lambda: app.shown()[0] == wide)


def test_a_line_wraps_between_words_and_a_word_longer_than_the_line_within() -> None:
    def split(text: str) -> list[str]:
        layout = RowLayout(attrgetter("text"), 10)
        layout.add([LogLine(0, 0.0, "node1", 0, "stdout", text)])
        spans = [layout.span(text, piece) for piece in range(layout.height)]
        return [text[begin:end] for begin, end in spans]

    assert split("the run stops") == ["the run ", "stops"]
    assert split("é run stops now") == ["é run ", "stops now"]
    assert split("a" * 23) == ["a" * 10, "a" * 10, "aaa"]


async def test_wrapping_leaves_the_reader_where_he_is() -> None:
    async with feed(size=(30, 8)) as (app, pilot):
        app.add(50, "word " * 20)
        app.set(news=False)
        await pilot.pause()
        app.view.scroll_to(y=20, animate=False)
        await pilot.pause()
        app.view.wrap = True
        await pilot.pause()
        assert app.view.virtual_size.height == 250
        assert app.shown()[0].startswith("  [0]")
        assert app.view.row_at(0) == (20, 0)
        app.view.wrap = False
        await pilot.pause()
        assert app.view.row_at(0) == (20, 0)


@pytest.mark.parametrize("width", [0, 1, 2, 3, 7, 80])
def test_the_pieces_of_a_row_are_all_of_it(width: int) -> None:
    for text in ("", "a", "漢", "a漢字b" * 9, "plain " * 20):
        lines = [LogLine(0, 0.0, "node1", 0, "stdout", each) for each in ("x", text)]
        wrapped = RowLayout(attrgetter("text"), max(1, width))
        wrapped.add(lines)
        assert wrapped.locate(0) == (0, 0)
        spans = [wrapped.span(text, piece) for piece in range(wrapped.height - 1)]
        assert (spans[0][0], spans[-1][1]) == (0, cell_len(text))
        assert all(end == start for (_, end), (start, _) in pairwise(spans))
        assert all(end - start <= wrapped.width for start, end in spans)
        assert wrapped.locate(wrapped.height - 1) == (1, len(spans) - 1)
        assert wrapped.locate(wrapped.height)[0] == 2


# Selection


async def test_text_that_is_selected_is_without_the_margins() -> None:
    async with feed(size=(40, 6)) as (app, pilot):
        app.add(6, "number")
        app.set(news=False)
        await pilot.pause()
        view = app.view
        assert view.get_selection(Selection(Offset(3, 1), Offset(2, 3))) == (
            "ber\nnumber\nnu",
            "\n",
        )
        assert view.get_selection(Selection(None, Offset(-3, 1))) == ("number\n", "\n")
        assert view.get_selection(Selection(Offset(0, 5), None)) == ("number", "\n")


async def test_the_mouse_selects_text() -> None:
    async with feed(size=(40, 6)) as (app, pilot):
        app.say(0, "one two three\n漢字 four")
        await pilot.pause()
        await pilot.mouse_down(LogView, offset=(10, 0))
        await pilot.hover(LogView, offset=(12, 1))
        await pilot.mouse_up(LogView, offset=(12, 1))
        await pilot.pause()
        assert app.screen.get_selected_text() == "two three\n漢字 fo"
        marked = app.screen.get_component_rich_style("screen--selection").bgcolor
        chosen = [
            segment.text
            for segment in app.view.render_line(0)
            if segment.style and segment.style.bgcolor == marked
        ]
        assert chosen == ["two three"]
        styles = [segment.style for segment in app.view.render_line(0) if segment.style]
        assert all(style.color != style.bgcolor for style in styles)


async def test_on_a_line_that_is_scrolled_sideways_the_mouse_selects_what_is_under_it() -> None:
    async with feed(size=(40, 6)) as (app, pilot):
        app.say(0, "".join(f"{number:04}" for number in range(30)))
        await pilot.pause()
        app.view.scroll_to(x=40, animate=False)
        await pilot.pause()
        await pilot.mouse_down(LogView, offset=(6, 0))
        await pilot.hover(LogView, offset=(9, 0))
        await pilot.mouse_up(LogView, offset=(9, 0))
        await pilot.pause()
        assert app.screen.get_selected_text() == "0010"


# Bounds


async def test_old_lines_go_and_the_reader_stays_where_he_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "MAX_LINES", 200)
    async with feed() as (app, pilot):
        app.add(150)
        await pilot.pause()
        app.view.scroll_to(y=120, animate=False)
        await pilot.pause()
        before = app.shown()
        app.add(60)
        await pilot.pause()
        assert app.view.virtual_size.height == 180
        assert app.shown() == before
        app.view.wrap = True
        await pilot.pause()
        app.add(60)
        await pilot.pause()
        assert app.shown() == before


async def test_routine_lines_push_no_news_out_of_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_LINES", 200)
    async with feed(size=(70, 10)) as (app, pilot):
        app.say(0, "hello")
        for _ in range(4):
            app.add(100, ROUTINE)
        await pilot.pause()
        assert app.shown()[0] == "  [0] hello"
        app.set(news=False)
        await pilot.pause()
        assert len(app.view.rows.lines) <= 200
        app.set(news=True)
        await pilot.pause()
        assert app.shown()[0] == "  [0] hello"


async def test_more_lines_than_the_log_holds_between_two_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "LINES", 50)
    async with feed() as (app, pilot):
        app.show()
        app.add(500)
        await pilot.pause()
        assert app.shown()[-1].endswith("line 499")


async def test_another_log_is_shown_from_its_beginning() -> None:
    async with feed() as (app, pilot):
        app.add(30)
        app.printed = RunLog(LIMITS)
        app.add(3, "anew")
        await pilot.pause()
        assert app.shown()[:2] == [f"[0-2] {'anew':31} x3", ""]


async def test_markup_and_controls_are_only_text() -> None:
    async with feed(size=(60, 10)) as (app, pilot):
        app.printed.lines.append(
            log.LogLine(
                0, 1e300, "node1", 0, "stdout", "[red]no[/red] \x1b[31mcolour\x07 \u202eturned"
            )
        )
        app.printed.count = 1
        app.view.times = True
        app.show()
        await pilot.pause()
        assert app.shown()[0] == "--:--:--   [0] [red]no[/red] [31mcolour turned"


async def test_wide_characters_take_two_cells() -> None:
    async with feed(size=(20, 5)) as (app, pilot):
        app.add(3, "漢字" * 20)
        await pilot.pause()
        for left in range(0, 20, 3):
            app.view.scroll_to(x=left, animate=False)
            await pilot.pause()
            for row in range(5):
                assert cell_len(app.view.render_line(row).text) == app.view.size.width


async def test_the_end_of_a_long_line_can_be_scrolled_to() -> None:
    async with feed(size=(40, 5)) as (app, pilot):
        app.add(2, "long " * 30 + "end")
        await pilot.pause()
        app.view.scroll_to(x=app.view.max_scroll_x, animate=False)
        await pilot.pause()
        assert app.shown()[0].endswith("end x2")
        assert app.shown()[0].startswith("[0-1] ")


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (70, "epoch 1  loss 0.375   50%  test 0.309  90.3%  4.0 s  ckpt 1500"),
        (60, "epoch 1  loss 0.375   50%  test 0.309  90.3%  4.0 s …"),
    ],
)
async def test_of_an_epoch_what_has_no_room_is_left_out_and_not_cut(width: int, shown: str) -> None:
    async with feed(size=(width, 10), ranks=1) as (app, pilot):
        line = "epoch 1  loss 0.375   50%  test 0.309  90.3%  4.0 s  ckpt 1500"
        app.printed.add_epoch(1000.0, line)
        app.show()
        await pilot.pause()
        assert app.shown()[0].strip() == shown


async def test_any_size() -> None:
    async with feed(size=(20, 5)) as (app, pilot):
        for width, height in [(1, 1), (2, 1), (1, 20), (80, 24), (3, 3), (200, 60)]:
            await pilot.resize_terminal(width, height)
            app.view.times = height % 2 == 0
            for wrap in (False, True):
                app.view.wrap = wrap
                app.add(30)
                app.set(rank=None if width % 2 else 1)
                await pilot.pause()
                for row in range(height):
                    app.view.render_line(row)


def test_a_very_long_line_is_cut() -> None:
    assert len(plain("x" * 1_000_000)) == LONGEST_DRAWN + 1


async def test_text_stands_on_the_ground_of_the_view() -> None:
    async with feed() as (app, pilot):
        app.add(3)
        await pilot.pause()
        grounds = {each.style and each.style.bgcolor for each in app.view.render_line(1)}
        assert grounds == {app.view.rich_style.bgcolor}


async def test_an_error_of_torch_shows_what_happened_and_not_where_its_source_was_compiled() -> (
    None
):
    folder = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
    async with feed(size=(80, 6), ranks=1) as (app, _):
        app.say(
            0, f"RuntimeError: [{folder}pair.cc:561] Connection closed by peer [::1]:1", "stderr"
        )
        app.say(0, "[/data/run.py:7] of one's own program", "stderr")
        shown = app.shown()
        assert "RuntimeError: [pair.cc:561] Connection closed by peer [::1]:1" in shown[0]
        assert "[/data/run.py:7] of one's own program" in shown[1]
        assert folder in app.view.rows.lines[0].text, "nothing is lost"
