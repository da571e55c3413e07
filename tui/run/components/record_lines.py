"""The line of a replay: where in the run it is, and how fast it goes."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Click
from textual.widgets import Static

from remote.format import duration, percent
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.replay import Replay

MIN_BAR_WIDTH = 8
"""Columns of the bar, at the least."""


class ReplaySlider(Container, can_focus=True):
    """A bar over the time of the run, with the keys that move in it."""

    DEFAULT_CSS = """
    ReplaySlider { height: 1; padding: 0 1; background: $panel; }
    ReplaySlider:focus { background: $primary 30%; }
    ReplaySlider Static { height: 1; }
    """
    place = KeyPlace.SLIDER
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay
        self._shown = ""
        self._bar = (0, 0)

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self) -> None:
        """Draw where the replay is."""
        text = self._slider_line(self.content_size.width)
        if text != self._shown:
            self._shown = text
            self.query_one(Static).update(Text(text, no_wrap=True, overflow="ellipsis"))

    def _slider_line(self, width: int) -> str:
        replay = self.replay
        if replay.problem:
            return replay.problem
        head = f"{self._state_text():<13}{duration(replay.position)} "
        tail = f" {duration(replay.duration)}"
        if replay.reading is not None:
            tail += f"  reading {percent(replay.reading)}"
        room = width - len(head) - len(tail)
        if room < MIN_BAR_WIDTH:
            return f"{head}/{tail}"
        share = replay.position / replay.duration if replay.duration else 1.0
        done = round((room - 1) * share)
        self._bar = (len(head), room)
        rest = room - 1 - done
        bar = palette.sign("full") * done + palette.sign("live") + palette.sign("rest") * rest
        return f"{head}{bar}{tail}"

    def _state_text(self) -> str:
        replay = self.replay
        if replay.is_live:
            return f"{palette.sign('live')} live"
        name = "playing" if replay.is_playing else "paused"
        return f"{palette.sign(name)} {name} {replay.speed:g}x"

    def action_jump(self, share: float) -> None:
        """Jump by a share of the run."""
        self.replay.jump(share * self.replay.duration)
        self.show()

    def on_click(self, event: Click) -> None:
        begin, room = self._bar
        if room > 1 and (at := event.x - 1 - begin) >= 0:
            self.replay.go_to(min(at / (room - 1), 1.0) * self.replay.duration)
            self.show()
