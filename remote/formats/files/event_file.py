"""Event files of TensorBoard: the scalars in them.

A line is one record, in base64: a message `Event` of Protocol Buffers, whose summary has values
with a tag and a number, or a tensor of one number. This is all that is needed of the format, so
rankboard does without the package `tensorboard`.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Iterator
from typing import NamedTuple

from remote.formats.files.entries import FileEntries
from remote.formats.reading import Reading

# Kinds of values on the wire.
VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5
# Fields of an Event.
STEP = 2
SUMMARY = 5
# Field of a Summary.
VALUE = 1
# Fields of a Value.
TAG = 1
SIMPLE_VALUE = 2
TENSOR = 8
# Fields of a tensor.
TYPE = 1
CONTENT = 4
FLOAT_LISTS = {5: "f", 6: "d"}
"""Fields that list numbers, with their format for `struct`."""
INTEGER_LISTS = (7, 10)
TYPES = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}
"""Types of a tensor, with their format for `struct`."""
MAX_STEP = 1 << 53


class EventFile:
    """Reads one event file. Values of one step that come together are one reading."""

    unread = 0

    def __init__(self) -> None:
        self.format = ""
        self._entries = FileEntries()

    def read(self, text: str) -> list[Reading]:
        """Return what the records report."""
        readings: list[Reading] = []
        last_step = -1
        values: dict[str, float] = {}
        for step, tag, value in _scalars(text):
            if step != last_step or tag in values:
                readings += self._reading(last_step, values)
                last_step = step
                values = {}
            values[tag] = value
        readings += self._reading(last_step, values)
        return readings

    def _reading(self, step: int, values: dict[str, float]) -> list[Reading]:
        if not values:
            return []
        reading = self._entries.reading([("step", float(step)), *values.items()])
        if reading is None:
            return []
        self.format = "TensorBoard"
        return [reading]


class WireField(NamedTuple):
    """A field of a message: `integer` is the value of a VARINT, `data` that of any other kind."""

    number: int
    kind: int
    integer: int
    data: bytes


def _scalars(text: str) -> Iterator[tuple[int, str, float]]:
    """Yield steps, tags and numbers."""
    for line in text.split("\n"):
        try:
            event = b64decode(line, validate=True)
            yield from _read_event(event)
        except (binascii.Error, ValueError, struct.error):  # a record that is damaged
            continue


def _read_event(event: bytes) -> list[tuple[int, str, float]]:
    """Return the scalars of a record. Raises: ValueError; struct.error."""
    step = 0
    scalars: list[tuple[str, float]] = []
    for field in _fields(event):
        if (field.number, field.kind) == (STEP, VARINT):
            step = field.integer
        elif (field.number, field.kind) == (SUMMARY, BYTES):
            scalars += _read_summary(field.data)
    if step >= MAX_STEP:
        return []
    return [(step, tag, number) for tag, number in scalars]


def _read_summary(summary: bytes) -> Iterator[tuple[str, float]]:
    for field in _fields(summary):
        if (field.number, field.kind) == (VALUE, BYTES):
            yield from _read_value(field.data)


def _read_value(value: bytes) -> list[tuple[str, float]]:
    """Return the tag and the number of a value; nothing if it is no scalar."""
    tag = ""
    numbers: list[float] = []
    for field in _fields(value):
        if (field.number, field.kind) == (TAG, BYTES):
            tag = field.data.decode(errors="replace")
        elif (field.number, field.kind) == (SIMPLE_VALUE, FIXED32):
            numbers += struct.unpack("<f", field.data)
        elif (field.number, field.kind) == (TENSOR, BYTES):
            numbers += _read_tensor(field.data)
    return [(tag, numbers[0])] if tag and len(numbers) == 1 else []


def _read_tensor(tensor: bytes) -> list[float]:
    """Return the numbers of a tensor; none if it is one of words."""
    numbers: list[float] = []
    content = b""
    tensor_type = 0
    for field in _fields(tensor):
        if (field.number, field.kind) == (TYPE, VARINT):
            tensor_type = field.integer
        elif (field.number, field.kind) == (CONTENT, BYTES):
            content = field.data
        elif field.number in FLOAT_LISTS and field.kind != VARINT:
            numbers += _unpack(FLOAT_LISTS[field.number], field.data)
        elif field.number in INTEGER_LISTS and field.kind in (BYTES, VARINT):
            integers = _varints(field.data) if field.kind == BYTES else [field.integer]
            numbers += map(_signed, integers)
    if content and tensor_type in TYPES:
        numbers += _unpack(TYPES[tensor_type], content)
    return numbers


def _unpack(number_format: str, data: bytes) -> list[float]:
    return [float(number) for (number,) in struct.iter_unpack(f"<{number_format}", data)]


def _fields(message: bytes) -> Iterator[WireField]:
    """Yield the fields of a message. Raises: ValueError, if it is none."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number = key >> 3
        kind = key & 7
        if kind == VARINT:
            integer, place = _read_varint(message, place)
            yield WireField(number, kind, integer, b"")
            continue
        if kind == BYTES:
            size, place = _read_varint(message, place)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")
        if place + size > len(message):
            raise ValueError("a field is cut")
        yield WireField(number, kind, 0, message[place : place + size])
        place += size


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a whole number of variable length, and where it ends. Raises: ValueError."""
    integer = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        integer |= (byte & 0x7F) << shift
        if byte < 0x80:
            return integer, place
    raise ValueError("a number is cut")


def _varints(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        integer, place = _read_varint(data, place)
        yield integer


def _signed(integer: int) -> float:
    return float(integer - (1 << 64) if integer >= 1 << 63 else integer)
