"""The keys of screens and panels, as the table of actions says, and how people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.kit.actions import ACTIONS, ACTIONS_BY_NAME, WITHIN, Action, KeyPlace
from tui.kit.key_names import format_key


def bindings(place: KeyPlace) -> list[BindingType]:
    """Return the keys of a place; on a screen, also those of its panels, for `elsewhere`."""
    place_bindings: list[BindingType] = []
    taken_keys: set[str] = set()
    for action in ACTIONS[place]:
        place_bindings.append(
            _make_binding(action, action.default_keys, action.call, action.is_shown)
        )
        taken_keys.update(action.default_keys)
    # A key of the screen itself counts first; of one that two panels have, the first panel.
    for panel in panels_of(place):
        for action in ACTIONS[panel]:
            free_keys = [key for key in action.default_keys if key not in taken_keys]
            if free_keys:
                taken_keys.update(free_keys)
                call = f"elsewhere('{action.name}')"
                place_bindings.append(_make_binding(action, free_keys, call, is_shown=False))
    return place_bindings


def _make_binding(action: Action, keys: Iterable[str], call: str, is_shown: bool) -> Binding:
    return Binding(
        ",".join(keys),
        call,
        action.label,
        show=is_shown,
        tooltip=action.help,
        priority=action.has_priority,
        id=None if action.is_fixed else action.name,  # by which Textual's keymap changes the keys
    )


def panels_of(place: KeyPlace) -> list[KeyPlace]:
    """Return the panels of a screen."""
    return [panel for panel, screen in WITHIN.items() if screen is place]


def find_panel_action(name: str) -> tuple[KeyPlace, Action]:
    """Return the panel of an action, and the action. Raises: KeyError, if no panel has it."""
    for panel in WITHIN:
        for action in ACTIONS[panel]:
            if action.name == name:
                return panel, action
    raise KeyError(name)


def focus_places(screen: Screen[Any]) -> list[KeyPlace]:
    """Return the places of the focus, from the inside out."""
    key_places = []
    innermost = screen.focused or screen
    for node in innermost.ancestors_with_self:
        node_place = getattr(node, "place", None)
        # Other widgets may have a `place` of their own, which is no name of ours.
        if isinstance(node_place, KeyPlace):
            key_places.append(node_place)
    return [*key_places, KeyPlace.EVERYWHERE]


def named_keys(app: App[Any], name: str) -> Sequence[str]:
    """Return the keys of the action of that name, by Textual's names: those that the user has
    chosen, or the default ones."""
    # Only our own apps have a keymap.
    chosen_keys: Mapping[str, str] = getattr(app, "keymap", {})
    if name in chosen_keys:
        return chosen_keys[name].split(",")
    return ACTIONS_BY_NAME[name].default_keys


def keys_of(app: App[Any], action: Action) -> list[str]:
    """Return the keys of an action, as people write them."""
    return [format_key(key) for key in named_keys(app, action.name)]


def key_of(app: App[Any], name: str) -> str:
    """Return the first key of the action of that name, as people write it."""
    return format_key(named_keys(app, name)[0])
