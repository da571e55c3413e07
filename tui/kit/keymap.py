"""The keys that the user has chosen, from `keys.toml` in the folder of settings.

What is wrong in the file is reported, and the default keys stay in its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import platformdirs
import tomllib
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from tui.kit.actions import ACTIONS, ACTIONS_BY_NAME, WITHIN, Action, Place
from tui.kit.key_names import format_key, parse_key

FILE_NAME = "keys.toml"
WRITE_KEYS = 'write a key, such as "S" or "ctrl+x", or several: ["n", "right"]'
WRITE_TABLE = 'write a table: [keys], and name = "key" below it'

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


# The file -----------------------------------------------------------------------------------------


def _check_action(name: str) -> str:
    """Raises: ValueError, if there is no action of this name, or its keys are fixed."""
    if name not in ACTIONS_BY_NAME:
        similar = difflib.get_close_matches(name, ACTIONS_BY_NAME, 1, 0.5)
        hint = f"did you mean {similar[0]!r}?" if similar else "docs/keys.md lists all names"
        raise ValueError(f"there is no action {name!r}; {hint}")
    if ACTIONS_BY_NAME[name].fixed:
        raise ValueError(f"the keys of {name!r} cannot be changed")
    return name


def _split_keys(value: object) -> object:
    """Return the keys of a text with commas between them."""
    if isinstance(value, str):
        return [value] if value == "," else value.split(",")
    return value


def _parse_keys(texts: list[str]) -> KeyNames:
    keys = []
    for text in texts:
        stripped = text.strip() or text  # a space is a key, too
        if not stripped:
            raise ValueError(WRITE_KEYS)
        try:
            keys.append(parse_key(stripped))
        except ValueError as error:
            hint = 'write keys such as "S", "ctrl+x", "f5" or "pgup"'
            raise ValueError(f"{error}; {hint}") from None
    return tuple(dict.fromkeys(keys))


class KeysFile(BaseModel):
    """What `keys.toml` holds."""

    model_config = ConfigDict(extra="forbid")
    keys: dict[
        Annotated[str, AfterValidator(_check_action)],
        Annotated[list[str], BeforeValidator(_split_keys), AfterValidator(_parse_keys)],
    ] = {}


def read(file: Path) -> Keymap:
    """Read the user's keys; there are none if there is no such file."""
    try:
        text = file.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except FileNotFoundError:
        return Keymap()
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        return Keymap(remarks=(f"{file}: {error}; all keys keep their defaults",))
    problems = _remove_mistakes(data)
    keys: dict[str, KeyNames] = dict(KeysFile.model_validate(data).keys)  # type: ignore[arg-type]
    problems += _remove_doubles(keys)
    remarks = []
    for name, problem in problems:
        line = _find_line(text, name)
        place = f"{file}:{line}" if line else f"{file}"
        remarks.append(f"{place}: {problem}")
    return Keymap({name: ",".join(names) for name, names in keys.items()}, tuple(remarks))


def _remove_mistakes(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Remove what is wrong from the content of the file. Return each name and its problem."""
    try:
        KeysFile.model_validate(data)
    except ValidationError as error:
        problems: dict[str, str] = {}
        for mistake in error.errors():
            table, *rest = map(str, mistake["loc"])
            # An action may be wrong in its name and in its keys: the first one is reported.
            name = rest[0] if rest else table
            problems.setdefault(name, _explain(mistake["type"], table, rest, mistake.get("ctx")))
            if rest:
                data[table].pop(name, None)
            else:
                data.pop(table)
        return list(problems.items())
    return []


def _explain(kind: str, table: str, rest: list[str], context: Mapping[str, Any] | None) -> str:
    """Return what is wrong, and what to write."""
    if kind == "value_error" and context:  # one of ours, see above
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"{table!r} is unknown: write keys below [keys]"
    return WRITE_KEYS if rest else WRITE_TABLE


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


def _list_active(place: Place) -> list[Action]:
    """Return the actions that work in a place."""
    places = [place, Place.EVERYWHERE]
    if place in WITHIN:
        places.append(WITHIN[place])
    return [action for each in dict.fromkeys(places) for action in ACTIONS[each]]


def _get_keys(action: Action, chosen: Mapping[str, KeyNames]) -> KeyNames:
    return chosen.get(action.name, action.default_keys)
