"""The help: the keys of the place where the focus is, then all others, and the panels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from textual.app import App

from tui.kit.actions import ACTIONS, Action, KeyPlace
from tui.kit.bindings import keys_of, panels_of
from tui.kit.dialogs import TextDialog
from tui.kit.rank_looks import help_on_phases
from tui.run.panels import PANELS

KEY_WIDTH = 15
"""Columns of keys, and of the titles of panels."""
TEXT_WIDTH = 52
"""Columns of what they mean."""
MOST_KEYS = 4
"""Keys that are written out; of more, the first and the last one."""
SCROLL = "arrows, page up, page down, home and end scroll; the mouse works, too"


class HelpDialog(TextDialog):
    """The keys of `here`, the places from the focus outwards, and then of all other places."""

    def __init__(self, app: App[Any], here: Sequence[KeyPlace]) -> None:
        super().__init__("keys", "\n".join(_list_help(app, here)))


def _list_help(app: App[Any], here: Sequence[KeyPlace]) -> Iterator[str]:
    """Yield all lines of the help."""
    near = list(here)
    for place in here:
        near += panels_of(place)
    near = list(dict.fromkeys(near))
    listed: set[str] = set()
    yield from _list_places(app, near, listed)
    yield "panels of a run; a key of another panel goes to that panel:"
    for panel in PANELS:
        yield from _put_beside(panel.title, panel.help)
    yield ""
    yield from _list_places(app, [place for place in KeyPlace if place not in near], listed)
    yield from textwrap.wrap(help_on_phases(), KEY_WIDTH + TEXT_WIDTH)


def _list_places(app: App[Any], places: Sequence[KeyPlace], listed: set[str]) -> Iterator[str]:
    """Yield the actions of these places that are not listed yet; each is listed once."""
    for place in places:
        actions = [action for action in ACTIONS[place] if action.name not in listed]
        if not actions:
            continue
        listed.update(action.name for action in actions)
        yield f"{place.value}:"
        yield from _list_actions(app, actions)
        if place is KeyPlace.EVERYWHERE:
            yield from _put_beside("", SCROLL)
        yield ""


def _list_actions(app: App[Any], actions: Sequence[Action]) -> Iterator[str]:
    """Yield a line per action; one for all that are explained alike, such as the panels'."""
    for help_text, alike in groupby(actions, lambda action: action.help):
        keys: list[str] = []
        for action in alike:
            keys += keys_of(app, action)
        shown = ", ".join(keys) if len(keys) <= MOST_KEYS else f"{keys[0]} ... {keys[-1]}"
        yield from _put_beside(shown, help_text)


def _put_beside(name: str, text: str) -> Iterator[str]:
    """Yield a name, and beside it a text in a column."""
    for line in textwrap.wrap(text, TEXT_WIDTH):
        yield f"  {name:<{KEY_WIDTH}} {line}"
        name = ""
