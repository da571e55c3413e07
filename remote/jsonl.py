"""JSON lines as launchers read them: thousands a second come from the hosts, and records of runs
have millions. Hosts need not have the library."""

from __future__ import annotations

from typing import Any

import orjson

from training.wire import jsonl


def load(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None if it is not a JSON object. See `training.wire.jsonl.load`:
    it reads what only Python takes for JSON, such as NaN and lone surrogates."""
    try:
        data = orjson.loads(line)
    except ValueError:
        return jsonl.load(line)
    return data if type(data) is dict else None
