"""The keys that the user has chosen, from `keys.toml` in the folder of settings.

What is wrong in the file is told, and the usual keys stay where it is.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
import tomllib

from tui.kit.actions import ACTIONS, WITHIN, Action, Place
from tui.kit.key_names import named, written

NAME = "keys.toml"
TABLE = "keys"


@dataclass(frozen=True)
class Keymap:
    """The names of Textual's keys, with commas between them, by the names of actions."""

    keys: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    """What is wrong in the file: where, and what to write."""


def path() -> Path:
    """The file of the user's keys."""
    return platformdirs.user_config_path("rankboard") / NAME


def read(file: Path) -> Keymap:
    """Read the user's keys; none where there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except FileNotFoundError:
        return Keymap()
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        return Keymap(remarks=(f"{file}: {error}; all keys keep their defaults",))
    return _Reading(file, text).read(data)


class _Reading:
    """Reads one file, and gathers what is wrong in it."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()
        self._remarks: list[str] = []

    def read(self, data: Mapping[str, object]) -> Keymap:
        for name in data:
            if name != TABLE:
                self._remark(name, f"{name!r} is unknown: write keys below [{TABLE}]")
        table = data.get(TABLE, {})
        if not isinstance(table, dict):
            self._remark(TABLE, f'write a table: [{TABLE}], and name = "key" below it')
            table = {}
        chosen = {name: keys for name, value in table.items() if (keys := self._keys(name, value))}
        self._drop_doubles(chosen)
        return Keymap({name: ",".join(keys) for name, keys in chosen.items()}, tuple(self._remarks))

    def _keys(self, name: str, value: object) -> tuple[str, ...]:
        """The keys that are written for an action; none where they are not fit."""
        actions = {one.name: one for one in _all()}
        if name not in actions:
            near = difflib.get_close_matches(name, actions, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else "docs/keys.md lists all names"
            self._remark(name, f"there is no action {name!r}; {hint}")
        elif actions[name].fixed:
            self._remark(name, f"the keys of {name!r} cannot be changed")
        elif not (keys := _as_keys(value)):
            self._remark(name, 'write a key, such as "S" or "ctrl+x", or several: ["n", "right"]')
        else:
            try:
                return tuple(dict.fromkeys(map(named, keys)))
            except ValueError as error:
                self._remark(name, f'{error}; write keys such as "S", "ctrl+x", "f5" or "pgup"')
        return ()

    def _drop_doubles(self, chosen: dict[str, tuple[str, ...]]) -> None:
        """Keep the usual keys of actions that would share a key with another one."""
        while doubles := list(_doubles(chosen)):
            for name, key, other in doubles:
                if chosen.pop(name, None):
                    also = f"{written(key)!r} is also the key of {other!r}"
                    self._remark(name, f"{also}; {name!r} keeps its default")

    def _remark(self, name: str, text: str) -> None:
        pattern = re.compile(rf"\s*(\[\s*)?[\"']?{re.escape(name)}[\"']?\s*[\]=.]")
        line = next((n for n, line in enumerate(self._lines, 1) if pattern.match(line)), 0)
        self._remarks.append(f"{self._file}{f':{line}' if line else ''}: {text}")


def _all() -> Iterator[Action]:
    return (one for actions in ACTIONS.values() for one in actions)


def _as_keys(value: object) -> list[str]:
    """The keys that a value lists; none where it is of another kind."""
    if isinstance(value, str):
        value = [value] if value == "," else value.split(",")
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        return []
    stripped = [key.strip() or key for key in value]
    return stripped if all(stripped) else []


def _doubles(chosen: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str]]:
    """Yield the actions with a chosen key that another action has where both work: its name, the
    key, and the other's name."""
    for place, actions in ACTIONS.items():
        around = [place, Place.EVERYWHERE, *([WITHIN[place]] if place in WITHIN else [])]
        others = [one for each in dict.fromkeys(around) for one in ACTIONS[each]]
        for one in actions:
            for other in others:
                if one.name == other.name or {one.name, other.name}.isdisjoint(chosen):
                    continue
                shared = set(_now(one, chosen)) & set(_now(other, chosen))
                if shared:
                    mine, its = (one, other) if one.name in chosen else (other, one)
                    yield mine.name, min(shared), its.name


def _now(action: Action, chosen: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return chosen.get(action.name, action.usual)
