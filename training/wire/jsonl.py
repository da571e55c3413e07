"""Lines of JSON, as which all that travels between launcher, agents and ranks is written. Imports
little."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any


def _plain(value: Any) -> dict[str, Any]:
    from dataclasses import asdict  # which takes as long to import as Python takes to start

    return asdict(value)


dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
"""The text of a value, without its newline. Dataclasses are written as objects."""


def most_values(line: bytes) -> int:
    """No more values than this are in the JSON of a line: what memory it takes to read it can be
    told without reading it."""
    return 1 + sum(map(line.count, (b",", b"[", b"{")))


def load(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object of a line, or None where it is none."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
