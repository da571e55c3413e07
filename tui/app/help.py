"""The help: the keys of the place where the focus is, then all others, and the panels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from textual.app import App

from tui.kit.actions import ACTIONS, Action, Place
from tui.kit.bindings import keys_of, panels_of
from tui.kit.dialogs import TextDialog
from tui.run.panels import PANELS

WIDTH = 15
"""Columns of keys, and of the titles of panels."""
LINE = 52
"""Columns of what they mean."""
MOST = 4
"""Keys that are written out; of more, the first and the last one."""
SCROLL = "arrows, page up, page down, home and end scroll; the mouse works, too"
STATES = (
    "A rank is waiting, importing, loading, in the rendezvous, joining, training (or serving "
    "parameters), evaluating or saving; then it is finished, failed, a victim of another rank's "
    "failure, stopped or lost."
)


class HelpDialog(TextDialog):
    """The keys of `here`, the places from the focus outwards, and then of all other places."""

    def __init__(self, app: App[Any], here: Sequence[Place]) -> None:
        super().__init__("keys", "\n".join(_help(app, here)))


def _help(app: App[Any], here: Sequence[Place]) -> Iterator[str]:
    panels = [panel for place in here for panel in panels_of(place)]
    near = list(dict.fromkeys((*here, *panels)))
    listed: set[str] = set()
    yield from _places(app, near, listed)
    yield "panels of a run; a key of another panel goes to that panel:"
    for kind in PANELS:
        yield from _beside(kind.title, kind.help)
    yield ""
    yield from _places(app, [place for place in Place if place not in near], listed)
    yield from textwrap.wrap(STATES, WIDTH + LINE)


def _places(app: App[Any], places: Sequence[Place], listed: set[str]) -> Iterator[str]:
    """The actions of these places that are not listed yet; each is listed once."""
    for place in places:
        actions = [one for one in ACTIONS[place] if one.name not in listed]
        if actions:
            listed.update(one.name for one in actions)
            yield f"{place.value}:"
            yield from _keys(app, actions)
            if place is Place.EVERYWHERE:
                yield from _beside("", SCROLL)
            yield ""


def _keys(app: App[Any], actions: Sequence[Action]) -> Iterator[str]:
    """A line for each action; for those that are explained alike, such as the panels', one."""
    for text, alike in groupby(actions, lambda one: one.help):
        keys = [key for action in alike for key in keys_of(app, action)]
        shown = ", ".join(keys) if len(keys) <= MOST else f"{keys[0]} ... {keys[-1]}"
        yield from _beside(shown, text)


def _beside(name: str, text: str) -> Iterator[str]:
    """A name, and beside it a text in a column."""
    for number, line in enumerate(textwrap.wrap(text, LINE)):
        yield f"  {'' if number else name:<{WIDTH}} {line}"
