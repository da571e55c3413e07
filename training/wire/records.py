"""Records, and the lines of JSON that carry them.

A *record* is one event with who wrote it and when. Agents and launchers write records, one JSON
object per line; a record is known by (run, host, attempt, seq). The first record of each writer
names the format of all (`training.wire.format`); in another format it is no record.

Decoding never raises: unknown keys are ignored, missing ones take their defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from training.wire import codec
from training.wire.format import FORMAT, READABLE, READABLE_TEXT, format_of
from training.wire.jsonl import dumps, load

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:  # a host, which checks no types

    def dataclass_transform(**_: bool) -> Callable[[Any], Any]:
        return lambda decorate: decorate


SESSION = -1
"""`Record.host` of the events of a launcher."""
FIRST = 1
"""The number of a writer's first record."""
LAST_TIME = 2.0**33
"""Seconds since 1970, in the year 2242: no record is written later."""
# From here on, a float does not hold every whole number.
LARGEST = 2**53
"""The largest number that a record may have."""
Bounds = Mapping[str, "tuple[float, float]"]
"""The least and the most that fields may be, by their names."""
COUNT = (0, LARGEST)
"""The bounds of what is counted, such as steps and bytes."""
SECONDS = (0.0, LAST_TIME)
"""The bounds of a time span."""
LONGEST_IDENTIFIER = 64
"""Characters of the name of a function."""

T = TypeVar("T")
Load = Callable[[str | bytes], "dict[str, Any] | None"]
"""Parses the JSON object of a line."""


@dataclass_transform(frozen_default=True)
def immutable(cls: type[T]) -> type[T]:
    """Make a dataclass with slots that nobody changes, as the type checker sees to."""
    # Not frozen: Python would take several times as long to make each of a million steps. What
    # `Comparable` has is not made for each class: Python compiles it anew at each start.
    return dataclass(slots=True, eq=False, repr=False)(cls)


def require(name: str, value: float, low: float, high: float) -> None:
    """Check that a value is within its bounds. Raises: ValueError, also for NaN."""
    # Not `value < low or value > high`, which NaN would pass.
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:g}, which is not between {low:g} and {high:g}")


class Comparable:
    """Base of what is equal if its class and all its fields are."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self.__match_args__]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Comparable) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        values = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values)})"


class Event(Comparable):
    """Base of all events.

    `wire_name` is the value of the key `event`; a class sets it if it is not its own name in lower
    case. `wire_keys` are the JSON keys of fields that have another name. An event with a field
    beyond its `bounds` is not decoded: figures that enter calculations must be finite. Fields among
    `identifiers` hold a name, as of a function in Python, or "".
    """

    __slots__ = ()
    wire_name: ClassVar[str]
    wire_keys: ClassVar[Mapping[str, str]] = {}
    bounds: ClassVar[Bounds] = {}
    identifiers: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.wire_name = codec.wire_name(cls)

    def validate(self) -> None:
        """Check the bounds, and what else must hold. Raises: ValueError."""
        for name, (low, high) in self.bounds.items():
            require(name, getattr(self, name), low, high)
        for name in self.identifiers:
            identifier = getattr(self, name)
            require(f"the length of {name}", len(identifier), 0, LONGEST_IDENTIFIER)
            if identifier and not identifier.isidentifier():
                raise ValueError(f"{name} is {identifier!r}, which is no name")


@immutable
class Record(Comparable):
    """An event, with who wrote it and when."""

    host: int
    """The index in the plan of the host whose agent wrote it, or SESSION."""
    attempt: int
    seq: int
    """The number among the records of this writer, from FIRST."""
    time: float
    """Seconds since 1970 by the clock of the writer."""
    event: Event


class RecordCodec:
    """Converts between records with events of these types and lines of JSON. A line with another
    event is no record."""

    def __init__(self, events: Iterable[type[Event]], load: Load = load) -> None:
        self._load = load
        self.events = tuple(events)
        self._codec = codec.Codec("event", self.events)
        self._names = frozenset(event.wire_name for event in self.events)

    def encode(self, record: Record) -> str:
        """Return the line of a record, with its newline."""
        data: dict[str, Any] = {
            "host": record.host,
            "attempt": record.attempt,
            "seq": record.seq,
            "time": record.time,
        }
        if record.seq == FIRST:
            data["format"] = FORMAT
        data |= self._codec.object(record.event)
        return dumps(data) + "\n"

    def decode(self, line: str | bytes) -> Record | None:
        """Return the record of a line; None if it is not a record."""
        data = self._load(line)
        if data is None or (data.get("seq") == FIRST and other_format(data) is not None):
            return None
        return self.from_object(data)

    def from_object(self, data: dict[str, Any]) -> Record | None:
        """Return the record of a JSON object; None if it is not a record."""
        event = self._codec.value(data)
        time = point_in_time(data.get("time"))
        if event is None or time is None:
            return None
        host = data.get("host")
        attempt = data.get("attempt")
        seq = data.get("seq")
        # Not isinstance, for which True is an int.
        if not type(host) is type(attempt) is type(seq) is int:
            return None
        is_in_bounds = host <= LARGEST and attempt <= LARGEST and seq <= LARGEST
        return Record(host, attempt, seq, time, event) if is_in_bounds else None

    def fault(self, line: str | bytes) -> str:
        """Say why a line that names an event is not a record; "" if it is a record, or another
        text."""
        data = self._load(line)
        event = data.get("event") if data else None
        is_known = isinstance(event, str) and event in self._names
        if data is None or not is_known or self.decode(line):
            return ""
        for name in ("host", "attempt", "seq"):
            number = data.get(name)
            if type(number) is not int or number > LARGEST:
                return f"{event}: {name} is {str(number)[:40]}, which is no number of a record"
        if point_in_time(data.get("time")) is None:
            return f"{event}: time is {str(data.get('time'))[:40]}, which is no point in time"
        other = other_format(data)
        if other is not None:
            return f"{event}: it is in format {other}, not {READABLE_TEXT}"
        return f"{event}: {self._codec.fault(data)}"

    def to_object(self, event: Event) -> dict[str, Any]:
        """Return the event as a JSON object with the key `event`."""
        return self._codec.object(event)


def other_format(data: Mapping[str, Any]) -> int | None:
    """Return the format number of a first record in a format that is not `READABLE`, 0 if it has
    none; None for all other records."""
    if data.get("seq") != FIRST or not isinstance(data.get("event"), str):
        return None
    number = format_of(data)
    return None if number in READABLE else number


def point_in_time(value: Any) -> float | None:
    """Return the time in a line; None if it is not a valid time."""
    # NaN and infinity are floats as well; the comparison below refuses them.
    is_number = type(value) is float or type(value) is int
    return float(value) if is_number and 0 <= value <= LAST_TIME else None
