"""The keys that the user has chosen, from `keys.toml` in the folder of settings.

What is wrong in the file is reported, and the default keys stay in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import tomllib

from tui.kit.actions import ACTIONS, WITHIN, Action, KeyPlace
from tui.kit.key_names import format_key

FILE_NAME = "keys.toml"
KeyNames = tuple[str, ...]


@dataclass(frozen=True)
class Keymap:
    """The keys that the user has chosen."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """The names of Textual's keys, with commas between them, by the names of actions."""
    remarks: tuple[str, ...] = ()
    """What is wrong in the file: where, and what to write."""


def path() -> Path:
    """Return the file of the user's keys."""
    return platformdirs.user_config_path("rankboard") / FILE_NAME


def read(file: Path) -> Keymap:
    """Read the user's keys; there are none if there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except FileNotFoundError:
        return Keymap()
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        return Keymap(remarks=(f"{file}: {error}; all keys keep their defaults",))
    from tui.kit.keys_file import parse_keys_file  # pydantic takes a while to load

    keys, problems = parse_keys_file(data)
    problems += _remove_doubles(keys)
    remarks = []
    for name, problem in problems:
        line = _find_line(text, name)
        place = f"{file}:{line}" if line else f"{file}"
        remarks.append(f"{place}: {problem}")
    return Keymap({name: ",".join(names) for name, names in keys.items()}, tuple(remarks))


def _find_line(text: str, name: str) -> int:
    """Return the number of the line that begins with a name or its table; 0 if there is none."""
    pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(name)}[\"']?\s*[\]=.]")
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.match(line):
            return number
    return 0


# Keys of two actions ------------------------------------------------------------------------------


def _remove_doubles(chosen: dict[str, KeyNames]) -> list[tuple[str, str]]:
    """Remove the keys of actions that would share one with another action. Return each name and
    its problem."""
    problems = []
    # An action that gets its default keys back may share one of them with a third action.
    while doubles := list(_find_doubles(chosen)):
        for name, key, other in doubles:
            if chosen.pop(name, None):
                problem = f"{format_key(key)!r} is also the key of {other!r}"
                problems.append((name, f"{problem}; {name!r} keeps its default"))
    return problems


def _find_doubles(chosen: Mapping[str, KeyNames]) -> Iterator[tuple[str, str, str]]:
    """Yield the actions with a chosen key that another action has where both work: its name, the
    key, and the other's name."""
    for place, actions in ACTIONS.items():
        others = _list_active(place)
        for action in actions:
            for other in others:
                if action.name == other.name or {action.name, other.name}.isdisjoint(chosen):
                    continue
                shared = set(_get_keys(action, chosen)) & set(_get_keys(other, chosen))
                if not shared:
                    continue
                if action.name in chosen:
                    yield action.name, min(shared), other.name
                else:
                    yield other.name, min(shared), action.name


def _list_active(place: KeyPlace) -> list[Action]:
    """Return the actions that work in a place."""
    places = [place, KeyPlace.EVERYWHERE]
    if place in WITHIN:
        places.append(WITHIN[place])
    return [action for each in dict.fromkeys(places) for action in ACTIONS[each]]


def _get_keys(action: Action, chosen: Mapping[str, KeyNames]) -> KeyNames:
    return chosen.get(action.name, action.default_keys)
