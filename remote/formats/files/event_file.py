"""Event files of TensorBoard: the scalars in them.

A line is one record, in base64: a message `Event` of Protocol Buffers, whose summary has values
with a tag and a number, or a tensor of one number.
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode
from collections.abc import Iterator

from remote.formats.files.entries import Entries
from remote.formats.reading import Reading

VARINT = 0
FIXED64 = 1
BYTES = 2
FIXED32 = 5
"""Kinds of values on the wire."""
STEP = 2
SUMMARY = 5
"""Fields of an Event."""
VALUE = 1
"""Field of a Summary."""
TAG = 1
SIMPLE = 2
TENSOR = 8
"""Fields of a Value."""
TYPE = 1
CONTENT = 4
"""Fields of a tensor."""
NUMBERS = {5: "f", 6: "d"}
WHOLE = (7, 10)
"""Fields of a tensor that list its numbers: by the format of `struct`, or as varints."""
TYPES = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}
"""Types of a tensor by the format of `struct`."""
Field = tuple[int, int, int, bytes]
"""Its number and kind, and its value: a whole number, or bytes."""


class EventFile:
    """Reads one event file. Values of one step that come together are one reading."""

    unread = 0

    def __init__(self) -> None:
        self._entries = Entries()
        self.format = ""

    def read(self, text: str) -> list[Reading]:
        """What the records tell."""
        readings: list[Reading] = []
        step = -1
        values = dict[str, float]()
        for number, tag, value in self._scalars(text):
            if number != step or tag in values:
                readings += self._reading(step, values)
                step = number
                values = {}
            values[tag] = value
        readings += self._reading(step, values)
        return readings

    def _reading(self, step: int, values: dict[str, float]) -> list[Reading]:
        reading = (
            self._entries.reading([("step", float(step)), *values.items()]) if values else None
        )
        if reading is None:
            return []
        self.format = "TensorBoard"
        return [reading]

    def _scalars(self, text: str) -> Iterator[tuple[int, str, float]]:
        """Steps, tags and numbers."""
        for line in text.split("\n"):
            try:
                event = b64decode(line, validate=True)
                yield from _of_event(event)
            except (binascii.Error, ValueError, struct.error):
                continue


def _of_event(event: bytes) -> list[tuple[int, str, float]]:
    """The scalars of a record. Raises: ValueError; struct.error."""
    step = 0
    found = list[tuple[str, float]]()
    for number, kind, whole, data in _fields(event):
        if (number, kind) == (STEP, VARINT):
            step = whole
        elif (number, kind) == (SUMMARY, BYTES):
            for each, kind_of, _, value in _fields(data):
                if (each, kind_of) == (VALUE, BYTES):
                    found += _of_value(value)
    return [(step, tag, number) for tag, number in found] if step < 1 << 53 else []


def _of_value(value: bytes) -> list[tuple[str, float]]:
    """The tag and the number of a value; nothing if it is no scalar."""
    tag = ""
    numbers = list[float]()
    for number, kind, _, data in _fields(value):
        if (number, kind) == (TAG, BYTES):
            tag = data.decode(errors="replace")
        elif (number, kind) == (SIMPLE, FIXED32):
            numbers += struct.unpack("<f", data)
        elif (number, kind) == (TENSOR, BYTES):
            numbers += _of_tensor(data)
    return [(tag, numbers[0])] if tag and len(numbers) == 1 else []


def _of_tensor(tensor: bytes) -> list[float]:
    """The numbers of a tensor; nothing of one of words."""
    numbers = list[float]()
    content = b""
    type_of = 0
    for number, kind, whole, data in _fields(tensor):
        if (number, kind) == (TYPE, VARINT):
            type_of = whole
        elif (number, kind) == (CONTENT, BYTES):
            content = data
        elif number in NUMBERS and kind in (BYTES, FIXED32, FIXED64):
            numbers += [one for (one,) in struct.iter_unpack(f"<{NUMBERS[number]}", data)]
        elif number in WHOLE and kind in (BYTES, VARINT):
            numbers += map(_signed, _varints(data) if kind == BYTES else [whole])
    if content and type_of in TYPES:
        numbers += [float(one) for (one,) in struct.iter_unpack(f"<{TYPES[type_of]}", content)]
    return numbers


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a message. Raises: ValueError, if it is none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number = key >> 3
        kind = key & 7
        if kind == VARINT:
            whole, at = _varint(message, at)
            yield number, kind, whole, b""
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + size > len(message):
            raise ValueError("a field is cut")
        yield number, kind, 0, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A whole number of variable length, and where it ends."""
    whole = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        whole |= (byte & 0x7F) << shift
        if byte < 0x80:
            return whole, at
    raise ValueError("a number is cut")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        whole, at = _varint(data, at)
        yield whole


def _signed(whole: int) -> float:
    return float(whole - (1 << 64) if whole >= 1 << 63 else whole)
