"""Values that fit no type, or fit it and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from types import UnionType
from typing import Any, get_type_hints

ESCAPES = "\x1b]52;c;cm0gLXJmIC8=\x07\x1b[2J\x9b31m\u202e\ud83d\x00"
"""What would fill a clipboard, clear a screen and turn a line round."""
WILD: dict[str, tuple[Any, ...]] = {
    "float": (
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        -1e308,
        1e300,
        1e18,
        5e-324,
        -0.0,
        2**62,
        "1",
        None,
        [1.0],
    ),
    "int": (2**63 - 1, -(2**63), 10**30, -1, 1.5, math.nan, "1", None, True, []),
    "str": (ESCAPES, "", "x" * 70_000, "\n" * 100, "\r\n\t\v", "../../../etc", 7, None, ["x"], {}),
    "bool": (2, "yes", None, math.nan),
    "enum": (ESCAPES, "", "closed", 7, None, ["training"], {}),
    "object": ({}, {"reason": ESCAPES}, {"reason": "closed", "left": [-1, 2**70]}, 7, "x", []),
    "tuple": ((), [math.nan], [10**30], ["\x1b"], [[]] * 50, list(range(5000)), "x", 7, None),
}


def _kind(hint: Any) -> str:
    """The key of WILD for a field of this type."""
    if "tuple" in str(hint):
        return "tuple"
    if isinstance(hint, UnionType):
        return "object"
    return "enum" if issubclass(hint, Enum) else str(hint.__name__)


def _worth(hint: Any) -> Any:
    if _kind(hint) == "enum":
        return next(iter(hint))
    worths = {"int": 0, "float": 0.0, "str": "x", "bool": False, "tuple": (), "object": None}
    return worths[_kind(hint)]


def wild(kind: type[Any], **honest: Any) -> Iterator[dict[str, Any]]:
    """The fields of a dataclass: none of them, honest ones, and then each in turn with every wild
    value."""
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)]
    said = {name: _worth(hints[name]) for name in names} | honest
    yield {}
    yield {one.name: said[one.name] for one in fields(kind) if one.default is MISSING}
    yield said
    for name in names:
        for value in WILD[_kind(hints[name])]:
            yield said | {name: value}
