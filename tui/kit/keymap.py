"""The keys that the user has chosen, from `keys.toml` in the folder of settings.

What is wrong in the file is reported, and the default keys stay in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
from msgspec import Struct, field

from training.registry import did_you_mean
from tui.kit.actions import ACTIONS, ACTIONS_BY_NAME, WITHIN, Action, KeyPlace
from tui.kit.key_names import format_key, parse_key

FILE_NAME = "keys.toml"
WRITE_KEYS = 'write a key, such as "S" or "ctrl+x", or several: ["n", "right"]'
WRITE_TABLE = 'write a table: [keys], and name = "key" below it'
KeyNames = tuple[str, ...]
Problems = dict[str, str]
"""What is wrong with names in the file, by name."""


class Keymap(Struct, frozen=True):
    """The keys that the user has chosen."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """The names of Textual's keys, with commas between them, by the names of actions."""
    remarks: tuple[str, ...] = ()
    """What is wrong in the file, and what to write."""


def path() -> Path:
    """Return the file of the user's keys."""
    return platformdirs.user_config_path("rankboard") / FILE_NAME


def read(file: Path) -> Keymap:
    """Read the user's keys; there are none if there is no such file."""
    try:
        key_tables = _load(file)
    except FileNotFoundError:
        return Keymap()
    except (OSError, ValueError) as error:  # no file to read, no UTF-8, or no TOML
        return Keymap(remarks=(f"{file}: {error}; all keys keep their defaults",))
    keys, problems = _parse(key_tables)
    problems |= _remove_doubles(keys)
    remarks = tuple(
        f"{file}: {action_name}: {problem}" for action_name, problem in problems.items()
    )
    return Keymap(
        {action_name: ",".join(key_names) for action_name, key_names in keys.items()}, remarks
    )


def _load(file: Path) -> dict[str, Any]:
    """Return what stands in a file. Raises: OSError, ValueError."""
    text = file.read_text(encoding="utf-8")
    import tomllib  # few users have a file, and the first screen waits for what is imported

    return tomllib.loads(text)


def _parse(data: Mapping[str, Any]) -> tuple[dict[str, KeyNames], Problems]:
    """Return the keys of actions, and what is wrong."""
    keys: dict[str, KeyNames] = {}
    problems: Problems = {}
    for table_name, content in data.items():
        if table_name != "keys":
            problems[table_name] = "unknown: write keys below [keys]"
        elif not isinstance(content, dict):
            problems[table_name] = WRITE_TABLE
        else:
            for action_name, keys_value in content.items():
                try:
                    keys[action_name] = _parse_keys(action_name, keys_value)
                except ValueError as error:
                    problems[action_name] = str(error)
    return keys, problems


def _parse_keys(name: str, value: object) -> KeyNames:
    """Return the keys of an action. Raises: ValueError."""
    if name not in ACTIONS_BY_NAME:
        hint = did_you_mean(name, ACTIONS_BY_NAME) or "; docs/reference/keys.md lists all names"
        raise ValueError(f"there is no such action{hint}")
    # Ctrl+C and tab have to work whatever the file says.
    if ACTIONS_BY_NAME[name].is_fixed:
        raise ValueError("its keys cannot be changed")
    key_texts = value
    if isinstance(value, str):
        # The comma separates keys, and is one.
        key_texts = [value] if value == "," else value.split(",")
    if not isinstance(key_texts, list) or not all(key_texts):
        raise ValueError(WRITE_KEYS)
    # A blank is the space bar.
    parsed_keys = [parse_key(str(text).strip() or " ") for text in key_texts]
    return tuple(dict.fromkeys(parsed_keys))


# Keys of two actions ------------------------------------------------------------------------------


def _remove_doubles(chosen: dict[str, KeyNames]) -> Problems:
    """Remove the keys of actions that would share one with another action."""
    problems: Problems = {}
    # An action that gets its default keys back may share one of them with a third action.
    while doubles := [double for double in _find_doubles(chosen) if double[0] in chosen]:
        for action_name, key, other_name in doubles:
            chosen.pop(action_name, None)
            problem = f"{format_key(key)!r} is also the key of {other_name!r}"
            problems.setdefault(action_name, f"{problem}; {action_name!r} keeps its default")
    return problems


def _find_doubles(chosen: Mapping[str, KeyNames]) -> Iterator[tuple[str, str, str]]:
    """Yield actions with a key that another one has in the same place: name, key, and the other's
    name."""
    for place in ACTIONS:
        owner_of_key: dict[str, str] = {}
        for action in _list_active(place):
            for key in chosen.get(action.name, action.default_keys):
                owner = owner_of_key.setdefault(key, action.name)
                if owner != action.name:
                    yield action.name, key, owner
                    yield owner, key, action.name


def _list_active(place: KeyPlace) -> list[Action]:
    """Return the actions that work in a place."""
    active_places = {place, KeyPlace.EVERYWHERE, WITHIN.get(place, place)}
    return [action for active_place in active_places for action in ACTIONS[active_place]]
