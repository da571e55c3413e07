"""Records, and the lines of JSON that carry them.

A *record* is one event with who wrote it and when. Agents and launchers write records, one JSON
object per line; a record is known by (run, host, attempt, seq). The first of each writer names the
format of all (`training.wire.format`); in another format it is no record.

Decoding never raises: unknown keys are ignored, missing ones take their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from training.wire.codec import Codec, reader_of
from training.wire.format import FORMAT, format_of
from training.wire.jsonl import dumps, load

SESSION = -1
"""`Record.host` of what a launcher itself says."""
FIRST = 1
"""The number of a writer's first record."""
LAST_TIME = 2.0**33
"""Seconds since 1970, in the year 2242: no record is written later."""
LARGEST = 2**53
"""The largest number that a record may have."""


def require(name: str, value: float, low: float, high: float) -> None:
    """Raises: ValueError, where the value is not within its bounds; NaN is within none."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:g}, which is not between {low:g} and {high:g}")


class Event:
    """Base of all events. `name` is the `event` key on the wire. Where an event has a method
    `validate`, what does not pass it is not decoded: figures from which others are calculated must
    be numbers."""

    __slots__ = ()
    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.name = cls.__name__.lower()


@dataclass(frozen=True, slots=True)
class Record:
    """An event, the host whose agent wrote it (its index in the plan, or SESSION), and when by that
    writer's clock."""

    host: int
    attempt: int
    seq: int
    time: float
    event: Event


class Lines:
    """The lines of records with events of these types. A line of another event is none of them."""

    def __init__(self, events: Iterable[type[Event]]) -> None:
        self.events = tuple(events)
        self.codec = Codec("event", self.events)
        self._names = frozenset(event.name for event in self.events)

    def encode(self, record: Record) -> str:
        """The line (with its newline) of a record."""
        head: dict[str, Any] = {"host": record.host, "attempt": record.attempt}
        head |= {"seq": record.seq, "time": record.time}
        if record.seq == FIRST:
            head["format"] = FORMAT
        return dumps(head | self.codec.object(record.event)) + "\n"

    def decode(self, line: str | bytes) -> Record | None:
        """The record of a line, or None where the line is none."""
        data = load(line)
        return None if data is None or other_format(data) is not None else self.from_object(data)

    def from_object(self, data: dict[str, Any]) -> Record | None:
        """The record that a JSON object stands for, or None where it is none."""
        if not isinstance(event := self.codec.value(data), Event):
            return None
        numbers: list[Any] = [data.get(name) for name in ("host", "attempt", "seq")]
        when = point_in_time(data.get("time"))
        if when is None or not all(type(number) is int for number in numbers):
            return None
        host, attempt, seq = numbers
        fits = max(host, attempt, seq) <= LARGEST
        return Record(host, attempt, seq, when, event) if fits else None

    def fault(self, line: str | bytes) -> str:
        """Why a line that is meant as a record is none; "" where it is one, or is some other
        text."""
        data = load(line)
        event = data.get("event") if data else None
        is_meant = isinstance(event, str) and event in self._names
        if data is None or not is_meant or self.decode(line):
            return ""
        for name in ("host", "attempt", "seq"):
            if type(number := data.get(name)) is not int or number > LARGEST:
                return f"{event}: {name} is {str(number)[:40]}, which is no number of a record"
        if point_in_time(data.get("time")) is None:
            return f"{event}: time is {str(data.get('time'))[:40]}, which is no point in time"
        if (number := other_format(data)) is not None:
            return f"{event}: it is in format {number}, not {FORMAT}"
        return f"{event}: {self.codec.fault(data)}"

    def to_object(self, event: Event) -> dict[str, Any]:
        """The event as a JSON-ready object with its `event` key."""
        return self.codec.object(event)


def other_format(data: Mapping[str, Any]) -> int | None:
    """The format of a first record that this version does not read, 0 where it names none; None for
    every other record."""
    number = format_of(data)
    is_first = data.get("seq") == FIRST and isinstance(data.get("event"), str)
    return number if is_first and number != FORMAT else None


_read_time = reader_of(float)


def point_in_time(value: Any) -> float | None:
    """The time that a line gives, or None where that is no point in time."""
    try:
        when = float(_read_time(value))
    except (TypeError, ValueError):
        return None
    return when if 0 <= when <= LAST_TIME else None
