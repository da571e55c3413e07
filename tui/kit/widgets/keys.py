"""The last line of a screen, which shows its keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.dom import DOMNode
from textual.events import MouseDown
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Footer, Static

from tui.kit.widgets.verdict_strip import VerdictStrip

KEY_STYLE = "bold $footer-key-foreground on $footer-key-background"
NAME_STYLE = "$footer-description-foreground on $footer-description-background"

STOP = "Stop"
"""The name of the key that quits, where that stops a run."""
FIRST_NAMES = ("Start", "Back", "Quit", STOP, "Help")
"""The way out and the list of all keys come first in every place, but behind a form's purpose."""


class ShownKey(NamedTuple):
    """A key in the footer."""

    key: str
    key_text: str
    """How the key is written."""
    name: str
    """What the key does."""
    enabled: bool


class KeyFooter(Footer):
    """Textual's footer with one widget instead of one per key.

    Those took a third of the time in which a screen comes up, and were made anew whenever the
    focus changed.
    """

    def compose(self) -> ComposeResult:
        yield KeyLine()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now."""
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.call_after_refresh(self._update_keys)

    def on_resize(self) -> None:
        self._update_keys()

    def _update_keys(self) -> None:
        if not self.is_attached or not self.query(KeyLine):
            return  # the screen is being removed
        helpful_keys = find_helpful_keys(self.screen)
        shown_keys: dict[str, ShownKey] = {}
        for node, binding, enabled, _ in self.screen.active_bindings.values():
            key_text = self.app.get_key_display(binding)
            is_helpful = key_text in helpful_keys
            # So the keys of the screen keep their places, whichever panel has the focus.
            if find_key_border(node) and not is_helpful:
                continue
            # Keys of the app, which quit, do something else on some screens.
            names = {**names_now(self.screen), **names_now(node)}
            key_name = names.get(binding.action, binding.description)
            # The innermost place comes first, and has the say over a name that several have.
            if (binding.show or is_helpful) and key_name not in shown_keys:
                shown_keys[key_name] = ShownKey(binding.key, key_text, key_name, enabled)
        if "Back" in shown_keys and "Quit" in shown_keys and "+" in shown_keys["Quit"].key:
            del shown_keys["Quit"]  # `Back` is the shorter way out
        first_keys = [
            shown_keys.pop(key_name) for key_name in FIRST_NAMES if key_name in shown_keys
        ]
        other_keys = sorted(
            shown_keys.values(),
            key=lambda shown_key: helpful_keys.get(shown_key.key_text, len(helpful_keys)),
        )
        fitting_keys = _fitting_keys([*first_keys, *other_keys], self.size.width)
        self.query_one(KeyLine).show(fitting_keys)


def find_helpful_keys(screen: Screen[object]) -> Mapping[str, int]:
    """Return the keys that the verdicts on a screen name, as people write them, with their
    places."""
    strips = [strip for strip in screen.query(VerdictStrip) if strip.display]
    keys = [key for strip in strips for key in strip.helpful_keys]
    return {key: place for place, key in enumerate(dict.fromkeys(keys))}


def names_now(node: DOMNode) -> Mapping[str, str]:
    """Return the names of actions of a node, by their calls, which for now are other than usual."""
    names: Mapping[str, str] = getattr(node, "names_now", {})
    return names


def find_key_border(node: DOMNode) -> DOMNode | None:
    """Return the panel around a node which shows its keys in its own border; None without any."""
    ancestors = node.ancestors_with_self
    return next((panel for panel in ancestors if getattr(panel, "has_key_border", False)), None)


def border_keys(panel: Widget) -> list[ShownKey]:
    """Return the keys of a panel for its border."""
    return [
        ShownKey(binding.key, panel.app.get_key_display(binding), binding.description, is_enabled)
        for node, binding, is_enabled, _ in panel.screen.active_bindings.values()
        if binding.show and is_enabled and find_key_border(node) is panel
    ]


def draw_border_keys(keys: Iterable[ShownKey], room: int) -> Content:
    """Return as many of the keys as fit into so many cells of a border."""
    parts = []
    for key in _fitting_keys(keys, room):
        parts += [(f" {key.key_text}", "bold $primary"), (f" {key.name.lower()} ", "$text-muted")]
    return Content.assemble(*parts)


def _fitting_keys(keys: Iterable[ShownKey], room_left: int) -> tuple[ShownKey, ...]:
    """Return as many of the keys as there is room for. None is cut off."""
    fitting_keys = []
    for key in keys:
        # The 3 are the blanks: two around the key, one behind its name.
        room_left -= len(key.key_text) + len(key.name) + 3
        if room_left < 0:
            break
        fitting_keys.append(key)
    return tuple(fitting_keys)


class KeyLine(Static):
    """Keys beside each other. A click on a key presses it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "KeyLine { width: auto; height: 1; text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__()
        self._keys: Sequence[ShownKey] = ()

    def show(self, keys: Sequence[ShownKey]) -> None:
        """Show these keys."""
        if keys != self._keys:
            self._keys = keys
            self.update(Content("").join(map(_draw_key, keys)))

    def on_mouse_down(self, event: MouseDown) -> None:
        pressed_key = event.style.meta.get("key")
        if pressed_key:
            self.app.simulate_key(pressed_key)


def _draw_key(key: ShownKey) -> Content:
    key_content = Content.assemble((f" {key.key_text} ", KEY_STYLE), (f"{key.name} ", NAME_STYLE))
    if not key.enabled:
        # Without the key in its style, a click presses nothing.
        return key_content.stylize("dim")
    return key_content.stylize(Style.from_meta({"key": key.key}))
