"""JSON lines as launchers read them: thousands a second come from the hosts, and records of runs
have millions. Hosts need not have the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import reduce
from operator import attrgetter, or_
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from training.wire import jsonl
from training.wire.codec import LARGEST_INT, LEAST_INT
from training.wire.records import Bounds, Event

_decode = msgspec.json.Decoder().decode
_INT = Annotated[int, msgspec.Meta(ge=LEAST_INT, le=LARGEST_INT)]
_LARGEST_BOUND = 2**63 - 1
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
        fields_of_line = _list_fields(event, keys, bounds)
        line = msgspec.defstruct(
            event.__name__, [("event", Literal[event.wire_name]), *fields_of_line], gc=False
        )
        self._decode = msgspec.json.Decoder(line).decode

    def read(self, line: str | bytes) -> Any:
        """Return the values of a line, as attributes. None if it needs another look: it is of
        another class, lacks a key, or does not fit."""
        try:
            return self._decode(line)
        except _FAULTS:
            return None


class EventReader:
    """Reads the lines of several classes of events whose fields are plain, and checks the bounds of
    their fields."""

    def __init__(self, events: Iterable[type[Event]], keys: Mapping[str, Any]) -> None:
        """`keys` are other keys of the objects, with their types."""
        self._events: dict[type, tuple[type[Event], Callable[[Any], tuple[Any, ...]]]] = {}
        for event in events:
            line = msgspec.defstruct(
                event.__name__,
                _list_fields(event, keys, event.bounds),
                tag_field="event",
                tag=event.wire_name,
                gc=False,
            )
            self._events[line] = event, attrgetter(*event.__match_args__)
        kinds: Any = reduce(or_, self._events)
        self._decode = msgspec.json.Decoder(kinds).decode

    def read(self, line: str | bytes) -> tuple[Any, Event] | None:
        """Return the values of a line, as attributes, and its event, which is not validated but for
        its bounds. None if it needs another look: it is of another class, lacks a key, or does not
        fit."""
        try:
            values = self._decode(line)
        except _FAULTS:
            return None
        event, fields_of = self._events[type(values)]
        return values, event(*fields_of(values))


def _list_fields(
    event: type[Event], keys: Mapping[str, Any], bounds: Bounds
) -> list[tuple[str, Any]]:
    """Return the fields of the lines of an event, with their types."""
    hints = get_type_hints(event)
    own = [(field.name, hints[field.name]) for field in fields(event)]  # type: ignore[arg-type]
    kinds = {name: _INT if kind is int else kind for name, kind in (*own, *keys.items())}
    for name, (low, high) in bounds.items():
        # The library takes no larger bound. What is beyond is not read, and gets another look.
        most = min(high, _LARGEST_BOUND)
        kinds[name] = Annotated[hints[name], msgspec.Meta(ge=low, le=most)]
    return [*kinds.items()]
