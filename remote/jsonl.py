"""JSON lines as launchers read them: thousands a second come from the hosts, and records of runs
have millions. Hosts need not have the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from training.wire import jsonl
from training.wire.codec import LARGEST_INT, LEAST_INT
from training.wire.records import Bounds, Event

_decode = msgspec.json.Decoder().decode
_INT = Annotated[int, msgspec.Meta(ge=LEAST_INT, le=LARGEST_INT)]
_FAULTS = (msgspec.DecodeError, UnicodeError, RecursionError)


def load(line: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if it is not a JSON object. See
    `training.wire.jsonl.load`: it reads what only Python takes for JSON, such as NaN and lone
    surrogates."""
    try:
        data = _decode(line)
    except _FAULTS:
        return jsonl.load(line)
    return data if type(data) is dict else None


class Reader:
    """Reads the lines of one class of events whose fields are plain, in half the time that `load`
    and a `training.wire.codec.Codec` take."""

    def __init__(
        self, event: type[Event], keys: Mapping[str, Any], bounds: Bounds = MappingProxyType({})
    ) -> None:
        """`keys` are other keys of the object, with their types. `bounds` are those of fields."""
        hints = get_type_hints(event)
        own = [(field.name, hints[field.name]) for field in fields(event)]  # type: ignore[arg-type]
        kinds = {name: _INT if kind is int else kind for name, kind in (*own, *keys.items())}
        for name, (low, high) in bounds.items():
            kinds[name] = Annotated[hints[name], msgspec.Meta(ge=low, le=high)]
        line = msgspec.defstruct(
            event.__name__, [("event", Literal[event.wire_name]), *kinds.items()], gc=False
        )
        self._decode = msgspec.json.Decoder(line).decode

    def read(self, line: str | bytes) -> Any:
        """Return the values of a line, as attributes. None if it needs another look: it is of
        another class, lacks a key, or does not fit."""
        try:
            return self._decode(line)
        except _FAULTS:
            return None
