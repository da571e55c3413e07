"""The help: the keys of the place where the focus is, then all others, and the panels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any

from textual.app import App
from textual.content import Content

from tui.app.file_saving import find_shown_session
from tui.kit.actions import ACTIONS, Action, KeyPlace
from tui.kit.bindings import keys_of, panels_of
from tui.kit.dialogs import MAX_TEXT_WIDTH, TextDialog
from tui.kit.rank_looks import help_on_phases
from tui.kit.replay import Replay
from tui.run.panels import PANELS

KEY_WIDTH = 15
"""Columns of keys, and of the titles of panels."""
TEXT_WIDTH = 52
"""Columns of what they mean, where the help is one column."""
FRAME_WIDTH = 5
"""Columns of the box around the help, and of its scrollbar."""
GAP = 2
"""Columns between two columns, and before keys."""
MIN_TEXT_WIDTH = 36
"""Columns of what they mean, from which on the help has two columns."""
PANEL_KEYS = "a key of another panel goes to that panel"
MOST_KEYS = 4
"""Keys that are written out; of more, the first and the last one."""
SCROLL = "arrows, page up, page down, home and end scroll; the mouse works, too"
OF_REPLAYS = frozenset(("play", "slower", "faster"))
"""Actions that a live run lacks, as it lacks the place `SLIDER`."""


class HelpDialog(TextDialog):
    """The keys of `here`, the places from the focus outwards, and then of all other places."""

    def __init__(self, app: App[Any], here: Sequence[KeyPlace]) -> None:
        super().__init__("keys", _lay_out(app, here))


def _lay_out(app: App[Any], here: Sequence[KeyPlace]) -> Content:
    """Return the help in two columns, where the terminal is wide enough for it."""
    width = min(app.size.width, MAX_TEXT_WIDTH) - FRAME_WIDTH
    column_width = (width - GAP) // 2
    text_width = column_width - KEY_WIDTH - GAP - 1
    if text_width < MIN_TEXT_WIDTH:
        return Content("\n").join(_HelpText(app, TEXT_WIDTH).list_all(here))
    lines = list(_HelpText(app, text_width).list_all(here))
    # A section may go on at the top of the second column, but does not begin at the very end.
    half = (len(lines) + 1) // 2
    rows = []
    for left, right in zip_longest(lines[:half], lines[half:], fillvalue=Content("")):
        padding = " " * (column_width - left.cell_length + GAP)
        rows.append(Content.assemble(left, padding, right))
    return Content("\n").join(rows)


class _HelpText:
    """Writes the help in lines, with so many columns for texts."""

    def __init__(self, app: App[Any], text_width: int) -> None:
        self._app = app
        self._text_width = text_width
        self._listed: set[str] = set()
        session = find_shown_session(app)
        if session and not isinstance(session, Replay):
            self._listed |= OF_REPLAYS
            self._listed |= {action.name for action in ACTIONS[KeyPlace.SLIDER]}

    def list_all(self, here: Sequence[KeyPlace]) -> Iterator[Content]:
        """Yield all lines of the help."""
        near = list(here)
        for place in here:
            near += panels_of(place)
        near = list(dict.fromkeys(near))
        yield from self._list_places(near)
        yield from map(Content, self._wrap(f"panels of a run; {PANEL_KEYS}:"))
        for panel in PANELS:
            yield from self._put_beside(panel.title, panel.help)
        yield Content("")
        yield from self._list_places([place for place in KeyPlace if place not in near])
        yield from map(Content, self._wrap(help_on_phases()))

    def _list_places(self, places: Sequence[KeyPlace]) -> Iterator[Content]:
        """Yield the actions of these places that are not listed yet; each is listed once."""
        for place in places:
            actions = [action for action in ACTIONS[place] if action.name not in self._listed]
            if not actions:
                continue
            self._listed.update(action.name for action in actions)
            yield Content.styled(f"{place.value}:", "bold")
            yield from self._list_actions(actions)
            if place is KeyPlace.EVERYWHERE:
                yield from self._put_beside("", SCROLL)
            yield Content("")

    def _list_actions(self, actions: Sequence[Action]) -> Iterator[Content]:
        """Yield a line per action; one for all that are explained alike, such as the panels'."""
        for help_text, alike in groupby(actions, lambda action: action.help):
            keys: list[str] = []
            for action in alike:
                keys += keys_of(self._app, action)
            shown = ", ".join(keys) if len(keys) <= MOST_KEYS else f"{keys[0]} ... {keys[-1]}"
            yield from self._put_beside(shown, help_text)

    def _put_beside(self, name: str, text: str) -> Iterator[Content]:
        """Yield a name in the ink of keys, and beside it a text in a column."""
        for line in textwrap.wrap(text, self._text_width):
            yield Content.assemble("  ", (f"{name:<{KEY_WIDTH}}", "bold $primary"), " ", line)
            name = ""

    def _wrap(self, text: str) -> list[str]:
        return textwrap.wrap(text, KEY_WIDTH + self._text_width)
