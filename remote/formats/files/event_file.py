"""Event files of TensorBoard: the scalars in them.

A line is one record, in base64: a message `Event` of Protocol Buffers, whose summary has values
with a tag and a number, or a tensor of one number. This is all that is needed of the format, so
rankboard does without the package `tensorboard`.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterator

from remote.formats.files.entries import EntryFile
from remote.formats.reading import Reading

# Numbers of fields: of an event, a summary, a value, a tensor.
STEP, SUMMARY = 2, 5
VALUE = 1
TAG, SIMPLE_VALUE, TENSOR = 1, 2, 8
TYPE, CONTENT = 1, 4
FLOAT_LISTS = {5: "f", 6: "d"}
"""Fields of a tensor that list numbers, with their format for `struct`."""
INTEGER_LISTS = (7, 10)
TYPES = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}
"""Types of a tensor, with their format for `struct`."""
MAX_STEP = 1 << 53
Message = dict[int, list[int | bytes]]
"""The fields of a message by number: integers, and the bytes of all other kinds."""


class EventFile(EntryFile):
    """Reads one event file. Values of one step that come together are one reading."""

    def __init__(self) -> None:
        super().__init__("TensorBoard")
        self._step = -1
        self._values: dict[str, float] = {}

    def read(self, text: str) -> list[Reading]:
        """Return what the records report."""
        return super().read(text) + self._take_values()

    def _read_line(self, line: str) -> list[Reading]:
        readings: list[Reading] = []
        for step, tag, value in _scalars(line):
            if step != self._step or tag in self._values:
                readings += self._take_values()
                self._step = step
            self._values[tag] = value
        return readings

    def _take_values(self) -> list[Reading]:
        values = self._values
        if not values:
            return []
        self._values = {}
        return self._reading([("step", float(self._step)), *values.items()])


def _scalars(line: str) -> list[tuple[int, str, float]]:
    """Return the steps, tags and numbers of a record, none if it is damaged."""
    try:
        return _read_event(b64decode(line, validate=True))
    except (ValueError, struct.error):
        return []


def _read_event(data: bytes) -> list[tuple[int, str, float]]:
    """Return the scalars of a record. Raises: ValueError; struct.error."""
    event = _fields(data)
    # Protocol Buffers leave out a 0, and of a field that comes twice the last one counts.
    step = (_integers(event, STEP) or [0])[-1]
    if step >= MAX_STEP:
        return []
    scalars: list[tuple[int, str, float]] = []
    for summary in _contents(event, SUMMARY):
        for value in _contents(_fields(summary), VALUE):
            tag, numbers = _read_value(_fields(value))
            if tag and len(numbers) == 1:
                scalars.append((step, tag, numbers[0]))
    return scalars


def _read_value(value: Message) -> tuple[str, list[float]]:
    """Return the tag and the numbers of a value; a scalar has one number."""
    tag = b"".join(_contents(value, TAG)[-1:]).decode(errors="replace")
    numbers = [number for data in _contents(value, SIMPLE_VALUE) for number in _unpack("f", data)]
    for tensor in _contents(value, TENSOR):
        numbers += _read_tensor(_fields(tensor))
    return tag, numbers


def _read_tensor(tensor: Message) -> list[float]:
    """Return the numbers of a tensor; none if it is one of words."""
    numbers: list[float] = []
    for field, number_format in FLOAT_LISTS.items():
        for data in _contents(tensor, field):
            numbers += _unpack(number_format, data)
    # A writer may give each number a field of its own, or pack all of them into one.
    for field in INTEGER_LISTS:
        integers = _integers(tensor, field)
        for data in _contents(tensor, field):
            integers += _varints(data)
        numbers += map(_signed, integers)
    number_format = TYPES.get((_integers(tensor, TYPE) or [0])[-1], "")
    for content in _contents(tensor, CONTENT)[-1:]:
        numbers += _unpack(number_format, content) if number_format else []
    return numbers


def _integers(message: Message, field: int) -> list[int]:
    return [value for value in message.get(field, ()) if isinstance(value, int)]


def _contents(message: Message, field: int) -> list[bytes]:
    return [value for value in message.get(field, ()) if isinstance(value, bytes)]


def _unpack(number_format: str, data: bytes) -> list[float]:
    return [float(number) for (number,) in struct.iter_unpack(f"<{number_format}", data)]


def _fields(data: bytes) -> Message:
    """Return the fields of a message. Raises: ValueError, if it is none."""
    message: Message = {}
    place = 0
    while place < len(data):
        # The last three bits of a key are the kind of what follows, the others the number of the
        # field.
        key, place = _read_varint(data, place)
        values = message.setdefault(key >> 3, [])
        match key & 7:
            case 0:  # a whole number of variable length
                integer, place = _read_varint(data, place)
                values.append(integer)
                continue
            case 1:  # 64 bits
                size = 8
            case 2:  # bytes
                size, place = _read_varint(data, place)
            case 5:  # 32 bits
                size = 4
            case kind:
                raise ValueError(f"a field of kind {kind}")
        values.append(data[place : place + size])
        place += size
        # A slice beyond the end raises nothing, it is only shorter.
        if place > len(data):
            raise ValueError("a field is cut")
    return message


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a whole number of variable length, and where it ends. Raises: ValueError."""
    integer = 0
    # Ten bytes of 7 bits each hold any number of 64 bits.
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
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
    # A negative number is written as its complement of 64 bits.
    return float(integer - (1 << 64) if integer >= 1 << 63 else integer)
