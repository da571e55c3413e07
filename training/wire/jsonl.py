"""JSON lines: the encoding of everything between launcher, agents and ranks. Imports little."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

_decode = json.JSONDecoder().raw_decode
_BLANKS = " \t\n\r"


def _to_dict(value: Any) -> dict[str, Any]:
    from dataclasses import asdict  # which takes as long to import as Python takes to start

    return asdict(value)


dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_to_dict).encode
"""The text of a value, without its newline. Dataclasses are written as objects."""


def most_values(line: bytes) -> int:
    """Return an upper bound of the number of values in a line of JSON, and so of the memory that
    parsing it takes."""
    # Each value but the first stands behind one of these characters. Those within strings only make
    # the bound higher.
    return 1 + line.count(b",") + line.count(b"[") + line.count(b"{")


def load(line: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if it is not a JSON object."""
    try:
        text = line if isinstance(line, str) else line.decode("utf-8", "surrogatepass")
        text = text.strip(_BLANKS)
        if not text.startswith("{"):
            return None
        data, end = _decode(text)
    # A line of brackets alone nests deeper than Python's parser can follow.
    except (ValueError, RecursionError):
        return None
    return data if end == len(text) else None
