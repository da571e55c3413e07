"""The keys of screens and panels, as the table of actions says, and how people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.kit.actions import ACTIONS, WITHIN, Action, Place
from tui.kit.key_names import written


def bindings(place: Place) -> list[BindingType]:
    """The keys of a place; on a screen, also those of its panels, for `elsewhere`."""
    found = [_binding(one, one.usual, one.call) for one in ACTIONS[place]]
    taken = {key for one in ACTIONS[place] for key in one.usual}
    for one in (one for panel in panels_of(place) for one in ACTIONS[panel]):
        free = [key for key in one.usual if key not in taken]
        if free:
            taken.update(free)
            found.append(_binding(one, free, f"elsewhere('{one.name}')", shown=False))
    return list(found)


def _binding(action: Action, keys: Iterable[str], call: str, shown: bool = True) -> Binding:
    return Binding(
        ",".join(keys),
        call,
        action.label,
        show=shown and action.shown,
        tooltip=action.help,
        priority=action.priority,
        id=None if action.fixed else action.name,
    )


def also(name: str) -> tuple[str, ...]:
    """Other words for the action of that name."""
    return next((one.also for all_of in ACTIONS.values() for one in all_of if one.name == name), ())


def panels_of(place: Place) -> list[Place]:
    """The panels of a screen."""
    return [panel for panel, screen in WITHIN.items() if screen is place]


def panel_action(name: str) -> tuple[Place, Action]:
    """The action of a panel, and the panel."""
    return next((panel, one) for panel in WITHIN for one in ACTIONS[panel] if one.name == name)


def places(screen: Screen[Any]) -> list[Place]:
    """Where the focus is, from the inside out."""
    inmost = screen.focused or screen
    around = [getattr(node, "place", None) for node in inmost.ancestors_with_self]
    return [*(place for place in around if isinstance(place, Place)), Place.EVERYWHERE]


def named_keys(app: App[Any], name: str) -> Sequence[str]:
    """The keys of the action of that name, by Textual's names: those that the user has chosen, or
    the usual ones."""
    chosen: Mapping[str, str] = getattr(app, "keymap", {})
    if name in chosen:
        return chosen[name].split(",")
    return next(one.usual for all_of in ACTIONS.values() for one in all_of if one.name == name)


def keys_of(app: App[Any], action: Action) -> list[str]:
    """The keys of an action, as people write them."""
    return [written(key) for key in named_keys(app, action.name)]


def key_of(app: App[Any], name: str) -> str:
    """The first key of the action of that name, as people write it."""
    return written(named_keys(app, name)[0])
