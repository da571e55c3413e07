"""What `keys.toml` may hold."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from tui.kit.actions import ACTIONS_BY_NAME
from tui.kit.key_names import parse_key

WRITE_KEYS = 'write a key, such as "S" or "ctrl+x", or several: ["n", "right"]'
WRITE_TABLE = 'write a table: [keys], and name = "key" below it'

KeyNames = tuple[str, ...]


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


def parse_keys_file(data: dict[str, Any]) -> tuple[dict[str, KeyNames], list[tuple[str, str]]]:
    """Return the keys of actions, and each name that is wrong, with its problem.

    What is wrong is removed from the data.
    """
    problems = _remove_mistakes(data)
    keys: Any = KeysFile.model_validate(data).keys  # the validators make tuples of the lists
    return keys, problems


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
