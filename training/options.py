"""The options of a choice, such as a sync method's: its module's dataclass `Options`, read *without
importing the module*.

`class Options` stands at the top level of the module, a frozen dataclass whose every field has a
default. Its annotations and body may use built-ins, `Literal` and `dataclass` only, as it is taken
out of the source and made on its own; so the launcher knows and checks options without torch.
`__post_init__` raises ValueError for a value out of range; a method `check(self, world_size)`,
where there is one, raises it for options that do not fit that many ranks; of a sync method
`trains(self, rank)`, where there is one, says whether that rank takes samples.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from training import registry


class OptionError(ValueError):
    """An option that cannot be used; the text names it and says what to write instead."""


@dataclass(frozen=True)
class Options:
    """Those of a module that has none."""


@cache
def of(folder: str, name: str) -> type[Any]:
    """The class `Options` of the module behind a name. Raises: registry.UnknownName."""
    path = registry.source(folder, name)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == "Options":
            scope: dict[str, Any] = {
                "__name__": f"training.{folder}.{path.stem}",
                "dataclass": dataclass,
                "Literal": Literal,
            }
            exec(compile(ast.Module([node], []), path, "exec", dont_inherit=True), scope)
            cls: type[Any] = scope["Options"]
            return cls
    return Options


def parse(cls: type[Any], flag: str, words: Iterable[str]) -> Any:
    """The options that `words` (each `key=value`) say; what they leave out has its default. Raises:
    OptionError."""
    hints, given = get_type_hints(cls), {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in hints:
            near = registry.did_you_mean(key, hints)
            raise OptionError(
                f"{flag} {word}: unknown option {key!r}{near} (known: {described(cls) or 'none'})"
            )
        if not equals:
            raise OptionError(f"{flag} {word}: write {key}={_kind(hints[key])}")
        given[key] = _read(hints[key], value, f"{flag} {word}")
    try:
        return cls(**given)
    except ValueError as error:
        raise OptionError(f"{flag} {error}") from None


def described(cls: type[Any]) -> str:
    """What may be said, as `granularity=parameter|bucket (bucket), bucket_mb=NUMBER (25)`."""
    hints = get_type_hints(cls)
    return ", ".join(
        f"{field.name}={_kind(hints[field.name])} ({_said(field.default)})" for field in fields(cls)
    )


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _kind(hint: Any) -> str:
    if hint is bool:
        return "yes|no"
    return "|".join(map(str, get_args(hint))) or {int: "N", float: "NUMBER"}.get(hint, "TEXT")


def _read(hint: Any, text: str, word: str) -> Any:
    if hint is bool and text in ("yes", "no"):
        return text == "yes"
    if hint in (int, float):
        with suppress(ValueError):
            number = hint(text)
            if math.isfinite(number):
                return number
    elif text in get_args(hint) or hint is str:
        return text
    raise OptionError(f"{word}: must be {_must(hint)}")


def _must(hint: Any) -> str:
    if known := ("yes", "no") if hint is bool else get_args(hint):
        return " or ".join(filter(None, (", ".join(map(str, known[:-1])), str(known[-1]))))
    return {int: "a whole number", float: "a number"}.get(hint, "a text")
