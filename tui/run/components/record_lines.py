"""The line of a replay: where in the run it is, and how fast it goes."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.events import Click
from textual.widgets import Static

from remote.format import duration, percent
from remote.run.run_state import RunState
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.replay import Replay
from tui.kit.widgets.verdict_strip import NextKey, draw_next_keys

MIN_BAR_WIDTH = 8
"""Columns of the bar, at the least."""
MIN_HEIGHT_FOR_KEYS = 20
"""Lines of the screen from which on the keys of a replay have a line below its bar."""


SLOW_INK = "$text-warning"
"""The ink of the time in which a rank was slow."""
ARROWS = {"left": "←", "right": "→"}
"""How keys are written in little room, where the terminal has these signs."""


def describe_replay(replay: Replay) -> str:
    """Say how a moment of a run is replayed, such as "▶ REPLAY 8x"; "" at the end of its record,
    which is what became of the run."""
    if replay.is_at_end:
        return ""
    if replay.is_playing:
        return f"{palette.sign('playing')} REPLAY {replay.speed:g}x"
    run = replay.state
    if not run.step:
        return f"{palette.sign('paused')} REPLAY paused before the first step"
    of_text = f" of {run.progress.steps}" if run.progress.steps else ""
    return f"{palette.sign('paused')} REPLAY paused at {_describe_steps(run)}{of_text}"


def _describe_steps(run: RunState) -> str:
    """Say at which step the ranks are; at a moment, some are ahead of others."""
    last_step = max((rank.step for rank in run.ranks), default=run.step)
    return f"step {run.step}" if last_step <= run.step else f"steps {run.step}-{last_step}"


def describe_end(replay: Replay) -> str:
    """Say what became of a run of which a moment is replayed: "ended: slow"; "" if that is not
    known."""
    return f"ended: {replay.outcome}" if replay.outcome else ""


class ReplaySlider(Container, can_focus=True):
    """A bar over the time of the run, with the keys that move in it."""

    DEFAULT_CSS = """
    ReplaySlider { height: 1; padding: 0 1; background: $panel; }
    ReplaySlider:focus { background: $primary 30%; }
    ReplaySlider Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    ReplaySlider.-unused Static { color: $foreground 65%; }
    """
    place = KeyPlace.SLIDER
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.replay = replay
        self._shown = Content()
        self._bar = (0, 0)
        self._num_lines = 1

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self) -> None:
        """Draw where the replay is."""
        is_unused = self._is_unused
        self.set_class(is_unused, "-unused")
        width = self.content_size.width
        has_key_line = not is_unused and self.app.size.height >= MIN_HEIGHT_FOR_KEYS
        if is_unused:
            line = Content(self._unused_line())
        else:
            line = self._slider_line(width, has_key_line=has_key_line)
        if has_key_line:
            line = Content("\n").join([line, self._key_line(width)])
        num_lines = 2 if has_key_line else 1
        if num_lines != self._num_lines:
            self._num_lines = num_lines
            self.styles.height = num_lines
        if not line.is_same(self._shown):
            self._shown = line
            self.query_one(Static).update(line)

    @property
    def _is_unused(self) -> bool:
        """Return True if the run has ended, and nobody has replayed it yet: then a full bar would
        look like a state of the run."""
        replay = self.replay
        is_whole = replay.reading is None and not replay.problem
        return is_whole and replay.has_ended and replay.is_at_end and not replay.is_used

    def _unused_line(self) -> str:
        self._bar = (0, 0)
        keys = f"{key_of(self.app, 'play')} replays   {self._move_keys()} moves in it"
        return f"recording {duration(self.replay.duration)}   {keys}"

    def _slider_line(self, width: int, *, has_key_line: bool) -> Content:
        replay = self.replay
        if replay.problem:
            return Content(replay.problem)
        place_text = duration(replay.position)
        whole_text = duration(replay.duration)
        head_text = f"{self._state_text()}  {place_text:>{len(whole_text)}} "
        tail_text = f" {whole_text}"
        if replay.reading is not None:
            tail_text += f"  reading {percent(replay.reading)}"
        bar_width = width - len(head_text) - len(tail_text)
        if bar_width < MIN_BAR_WIDTH:
            return Content(f"{head_text}{tail_text}")
        for next_key in [] if has_key_line else self._list_keys():
            key_text = f"  {next_key.key} {next_key.short_text or next_key.text}"
            if bar_width - len(key_text) >= MIN_BAR_WIDTH:
                tail_text += key_text
                bar_width -= len(key_text)
        self._bar = (len(head_text), bar_width)
        return Content.assemble(head_text, *self._draw_bar(bar_width), tail_text)

    def _draw_bar(self, width: int) -> list[tuple[str, str]]:
        """Return the cells of the bar, with the times in which a rank was slow and where the replay
        is."""
        replay = self.replay
        share = replay.position / replay.duration if replay.duration else 1.0
        # One cell of the bar is the place of the replay itself.
        num_done = round((width - 1) * share)
        cells = [(palette.sign("full"), "")] * num_done
        cells += [(palette.sign("rest"), "")] * (width - num_done)
        for begin, end in replay.slow_spells:
            first, last = (
                min(max(round((width - 1) * seconds / replay.duration), 0), width - 1)
                for seconds in (begin, end)
            )
            cells[first : last + 1] = [(sign, SLOW_INK) for sign, _ in cells[first : last + 1]]
            cells[first] = (palette.sign("slow"), SLOW_INK)
        cells[num_done] = (palette.sign("live"), "")
        return cells

    def _key_line(self, width: int) -> Content:
        """Return what the keys of a replay do, the most important ones first."""
        return draw_next_keys(self._list_keys(), width, is_calm=True) or Content()

    def _list_keys(self) -> list[NextKey]:
        replay = self.replay
        play, slower, faster, end = (
            key_of(self.app, name) for name in ("play", "slower", "faster", "end")
        )
        is_over = replay.has_ended and replay.is_at_end
        play_text, short_text = ("play from the start", "play") if is_over else ("play", "")
        next_keys = [
            NextKey(play, "pause" if replay.is_playing else play_text, short_text),
            NextKey(self._move_keys(), "move"),
            NextKey(f"{slower} {faster}", f"speed {replay.speed:g}x"),
        ]
        if not is_over:
            end_text = "to the newest step" if replay.is_live else "to the end"
            next_keys.append(NextKey(end, end_text))
        return next_keys

    def _move_keys(self) -> str:
        keys = [key_of(self.app, name) for name in ("earlier", "later")]
        if palette.has_utf8():
            keys = [ARROWS.get(key, key) for key in keys]
        return "/".join(keys)

    def _state_text(self) -> str:
        replay = self.replay
        if replay.is_live:
            return f"{palette.sign('live')} live"
        state_name = "playing" if replay.is_playing else "paused"
        return f"{palette.sign(state_name)} {replay.speed:g}x"

    def action_jump(self, share: float) -> None:
        """Jump by a share of the run."""
        self.replay.jump(share * self.replay.duration)
        self.show()

    def on_click(self, event: Click) -> None:
        bar_begin, bar_width = self._bar
        clicked_cell = event.screen_x - self.content_region.x - bar_begin
        if bar_width > 1 and clicked_cell >= 0:
            share = min(clicked_cell / (bar_width - 1), 1.0)
            self.replay.go_to(share * self.replay.duration)
            self.show()
