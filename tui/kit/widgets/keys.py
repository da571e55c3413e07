"""The last line of a screen: its keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Leave, MouseDown, MouseMove
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Footer, Static

KEY = "bold $footer-key-foreground on $footer-key-background"
NAME = "$footer-description-foreground on $footer-description-background"
UNDER_MOUSE = "$footer-key-foreground on $block-hover-background"

FIRST = ("Back", "Quit", "Help")
"""What is shown first, in every place: the way out, and the list of all keys."""


class Shown(NamedTuple):
    """A key, how it is written, and what it does."""

    key: str
    written: str
    does: str
    enabled: bool


class Keys(Footer):
    """Textual's footer with one widget, not one for each key: those took a third of the time in
    which a screen comes up, and were made anew whenever the focus changed."""

    def compose(self) -> ComposeResult:
        yield Line()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now."""
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self.is_attached or not self.query(Line):  # any more: the screen goes
            return
        shown: dict[str, Shown] = {}
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and binding.description not in shown:
                key = self.app.get_key_display(binding)
                shown[binding.description] = Shown(binding.key, key, binding.description, enabled)
        if "Back" in shown and "Quit" in shown and "+" in shown["Quit"].key:
            del shown["Quit"]  # there is a shorter way out
        first = [shown.pop(name) for name in FIRST if name in shown]
        self.query_one(Line).show(_that_fit([*first, *shown.values()], self.size.width))


def _that_fit(keys: Sequence[Shown], room: int) -> tuple[Shown, ...]:
    """As many of the keys as there is room for; none is cut off."""
    ends = accumulate(len(one.written) + len(one.does) + 3 for one in keys)
    return tuple(one for one, end in zip(keys, ends, strict=True) if end <= room)


class Line(Static):
    """Keys, beside each other. A click on a key presses it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Line { width: auto; height: 1; text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Shown, ...] = ()
        self._under_mouse = ""

    def show(self, shown: tuple[Shown, ...]) -> None:
        """Draw these keys, if they are others than before."""
        if shown != self._shown:
            self._shown = shown
            self._draw()

    def _draw(self) -> None:
        self.update(Content("").join(self._drawn(one) for one in self._shown))

    def _drawn(self, one: Shown) -> Content:
        here = one.key == self._under_mouse
        key, name = (UNDER_MOUSE, UNDER_MOUSE) if here else (KEY, NAME)
        content = Content.assemble((f" {one.written} ", key), (f"{one.does} ", name))
        if not one.enabled:
            return content.stylize("dim")
        return content.stylize(Style.from_meta({"key": one.key}))

    def on_mouse_down(self, event: MouseDown) -> None:
        key = event.style.meta.get("key")
        if key:
            self.app.simulate_key(key)

    def on_mouse_move(self, event: MouseMove) -> None:
        self._point(event.style.meta.get("key", ""))

    def on_leave(self, event: Leave) -> None:
        self._point("")

    def _point(self, key: str) -> None:
        """Highlight the key under the mouse."""
        if key != self._under_mouse:
            self._under_mouse = key
            self._draw()
