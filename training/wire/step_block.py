"""Steps as columns of numbers: how the many steps of a rank travel in few bytes.

A rank reports each step as a row of numbers of 64 bits, in base64. Its agent gathers the rows of a
second at the most and writes them as one `StepBlock`: a column after the other, floats as such of
32 bits, integers as differences, deflated. A step then takes 24 to 40 bytes instead of 300.
"""

from __future__ import annotations

import zlib
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import accumulate, chain, repeat
from math import isnan
from operator import add, attrgetter, itemgetter, sub
from struct import Struct
from typing import Any, ClassVar, TypeVar

from training.wire.rank_events import StepFinished
from training.wire.records import COUNT, SECONDS, Bounds, Event, immutable, require

STEP_ROW = "step "
"""Follows the prefix of a line in which a rank reports a step as a row."""
FLOATS = ("loss", "seconds", "data", "compute", "sync", "ready", "cpu_seconds")
INTEGERS = ("epoch", "step", "samples", "correct", "bytes_sent", "staleness", "loss_known")
"""The columns, by the fields of `StepFinished`. In a row, rank and time come before them."""
MOST_STEPS = 4096
"""Steps of a block, at the most."""

_row = Struct(f"<i{1 + len(FLOATS)}d{len(INTEGERS) - 1}q?")
ROW_BYTES = _row.size
ROW_CHARACTERS = ROW_BYTES // 3 * 4
"""Of a row as text: its bytes are a multiple of 3, so that rows can be decoded together."""
_floats_of = attrgetter(*FLOATS)
_integers_of = attrgetter(*INTEGERS)
_NUM_INTEGERS = 1 + len(INTEGERS)
"""Columns of integers in a block: the first one is the time, in microseconds since 1970."""
_COMPUTE = FLOATS.index("compute")
"""Of this column a block has what the others do not tell: nothing, where `compute` is the rest."""
_FLOAT_BYTES = 4
_INTEGER_BYTES = 8
_STEP_BYTES = len(FLOATS) * _FLOAT_BYTES + _NUM_INTEGERS * _INTEGER_BYTES
LARGEST_COLUMNS = MOST_STEPS * _STEP_BYTES + (1 << 12)
"""Bytes of the packed columns of a block, at the most: what cannot be deflated grows a little."""
_LEVEL = 6
"""Of zlib. On so few bytes, lower levels save no time, and higher ones no room."""
_names_by_bounds: dict[tuple[float, float], list[str]] = {
    SECONDS: ["times"],
    (0, 1): ["loss_known"],
}
for _name in (*FLOATS, *INTEGERS[:-1]):
    # A loss may be any number, and none.
    if _name != "loss":
        _names_by_bounds.setdefault(StepFinished.bounds.get(_name, COUNT), []).append(_name)
_Number = TypeVar("_Number", int, float)


@immutable
class StepColumns:
    """Steps of a rank, one after the other. Each column has a number of each step, in order."""

    rank: int
    times: Sequence[float]
    """When the rank made each step, by its own clock, in seconds since 1970."""
    # The columns by the names of the fields of `StepFinished`, and in their order.
    epoch: Sequence[int]
    step: Sequence[int]
    loss: Sequence[float]
    seconds: Sequence[float]
    data: Sequence[float]
    compute: Sequence[float]
    sync: Sequence[float]
    ready: Sequence[float]
    cpu_seconds: Sequence[float]
    samples: Sequence[int]
    correct: Sequence[int]
    bytes_sent: Sequence[int]
    staleness: Sequence[int]
    loss_known: Sequence[int]

    def __len__(self) -> int:
        return len(self.times)

    def part(self, start: int, stop: int | None = None) -> StepColumns:
        """Return the steps of a slice."""
        # Most slices of blocks are all of their steps, and to copy 15 columns takes a while.
        if len(range(len(self))[start:stop]) == len(self):
            return self
        cut = itemgetter(slice(start, stop))
        return StepColumns(self.rank, cut(self.times), *map(cut, columns_of(self)))

    def make_steps(self) -> Iterator[StepFinished]:
        """Yield the steps one by one."""
        *columns, loss_known = columns_of(self)
        return map(StepFinished, repeat(self.rank), *columns, map(bool, loss_known))


_FIELDS = [field.name for field in fields(StepFinished) if field.name != "rank"]
_in_order_of_fields = itemgetter(*map((*FLOATS, *INTEGERS).index, _FIELDS))
columns_of: Callable[[StepColumns], tuple[Sequence[Any], ...]] = attrgetter(*_FIELDS)
"""The columns of steps by the fields of `StepFinished`, in their order, without the rank."""


class _Packed(Event):
    """Base of an event that is unpacked once: a dataclass has no slots but those of its fields."""

    __slots__ = ("_columns",)
    _columns: StepColumns


@immutable
class StepBlock(_Packed):
    """Steps of a rank, one after the other, as packed columns."""

    wire_name = "steps"
    bounds: ClassVar[Bounds] = {"step": COUNT, "count": (1, MOST_STEPS)}

    rank: int
    step: int
    """The number of the last step."""
    count: int
    """How many steps it has."""
    columns: str
    """The columns, packed and in base64."""

    def validate(self) -> None:
        """Raises: ValueError."""
        # Not by super(), which does not know the class that a dataclass with slots becomes.
        Event.validate(self)
        self.unpack()

    @property
    def packed(self) -> bytes:
        """Return the packed columns as bytes. Raises: ValueError, if they are no base64."""
        return a2b_base64(self.columns)

    def unpack(self) -> StepColumns:
        """Return the columns, which are unpacked once. Raises: ValueError, if they are damaged, or
        a number is out of bounds."""
        if not hasattr(self, "_columns"):
            self._columns = _unpack(self)
        return self._columns


# Rows ---------------------------------------------------------------------------------------------


def encode_row(step: StepFinished, time: float) -> str:
    """Return the row of a step as text. Raises: struct.error, if a number has more than 64 bits."""
    row = _row.pack(step.rank, time, *_floats_of(step), *_integers_of(step))
    return b2a_base64(row, newline=False).decode()


def decode_rows(text: str) -> bytes | None:
    """Return the rows in a text, one behind the other as in the text; None if it is no rows."""
    try:
        rows = a2b_base64(text)
    except ValueError:
        return None
    # Both: characters that are not base64 are passed over.
    is_whole = len(text) % ROW_CHARACTERS == 0 and len(rows) * 4 == len(text) * 3
    return rows if rows and is_whole else None


def rank_of_row(row: bytes) -> int:
    """Return the rank that has reported a row."""
    return int.from_bytes(row[:4], "little", signed=True)


def read_row(row: bytes) -> tuple[StepFinished, float]:
    """Return the step of a row, and its time. Raises: ValueError, if a number is out of bounds."""
    columns = _read_rows(row)
    (step,) = columns.make_steps()
    return step, columns.times[0]


def _read_rows(rows: bytes) -> StepColumns:
    """Raises: ValueError, if a number is out of bounds, or the rows are of several ranks."""
    ranks, times, *columns = zip(*_row.iter_unpack(rows), strict=True)
    require("rank", max(ranks), ranks[0], min(ranks))
    return _make_columns(ranks[0], times, columns[: len(FLOATS)], columns[len(FLOATS) :])


def _make_columns(
    rank: int,
    times: Sequence[float],
    floats: Sequence[Sequence[float]],
    integers: Sequence[Sequence[int]],
) -> StepColumns:
    """Return the columns of `FLOATS` and `INTEGERS` by their names. Raises: ValueError, if a number
    is out of bounds."""
    columns = StepColumns(rank, times, *_in_order_of_fields((*floats, *integers)))
    _check(columns)
    return columns


def _check(columns: StepColumns) -> None:
    """Raises: ValueError, if a number is out of bounds."""
    # All columns with the same bounds together, as hardly any block has such a number.
    for (low, high), names in _names_by_bounds.items():
        numbers = [*chain.from_iterable(map(getattr, repeat(columns), names))]
        # The sum is NaN if any number is, which the least and the greatest may hide.
        has_nan = isnan(sum(numbers))
        numbers.sort()  # in half the time of `min` and `max`, as the numbers of a column are alike
        if has_nan or numbers[0] < low or numbers[-1] > high:
            _check_each(columns)


def _check_each(columns: StepColumns) -> None:
    """Raises: ValueError, which names the number that is out of bounds."""
    for (low, high), names in _names_by_bounds.items():
        for name in names:
            for number in getattr(columns, name):
                require("time" if name == "times" else name, number, low, high)


# Blocks -------------------------------------------------------------------------------------------


def pack_rows(rows: bytes) -> StepBlock:
    """Return the block of rows of one rank, at most `MOST_STEPS`. Raises: ValueError, if a number
    of any row is out of bounds, or they are of several ranks."""
    return pack_columns(_read_rows(rows))


def pack_columns(columns: StepColumns) -> StepBlock:
    """Return the block of columns of at most `MOST_STEPS` steps, which are within bounds."""
    floats = array("f")
    float_columns = _floats_of(columns)
    rests = _find_rests(float_columns)
    for place, float_column in enumerate(float_columns):
        floats.extend(map(sub, float_column, rests) if place == _COMPUTE else float_column)
    microseconds = [round(time * 1e6) for time in columns.times]
    integers = array("q")
    for column in (microseconds, *_integers_of(columns)):
        integers.append(column[0])
        integers.extend(map(sub, column[1:], column))
    packed = _deflate(floats.tobytes(), integers.tobytes())
    return StepBlock(columns.rank, columns.step[-1], len(columns), packed)


def _deflate(floats: bytes, integers: bytes) -> str:
    # All first bytes, then all second ones, and so on: those of like numbers are alike.
    planes = [floats[place::_FLOAT_BYTES] for place in range(_FLOAT_BYTES)]
    planes[0] = _shorten(planes[0])
    planes += [integers[place::_INTEGER_BYTES] for place in range(_INTEGER_BYTES)]
    return b2a_base64(zlib.compress(b"".join(planes), _LEVEL), newline=False).decode()


def _shorten(last_bytes: bytes) -> bytes:
    """Return the last bytes of all floats without those of times, which are noise and take a fifth
    of the room: a time keeps 16 bits, which tell 10 ms from 10.0001 ms."""
    num_losses = len(last_bytes) // len(FLOATS)  # the first column
    return last_bytes[:num_losses] + bytes(len(last_bytes) - num_losses)


def _unpack(block: StepBlock) -> StepColumns:
    """Raises: ValueError, if a block is damaged, or a number is out of bounds."""
    count = block.count
    size = count * _STEP_BYTES
    inflater = zlib.decompressobj()
    try:
        # Bounded, as a few bytes may stand for gigabytes.
        planes = inflater.decompress(block.packed, size + 1)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"columns: {error}") from None
    if len(planes) != size or not inflater.eof:
        raise ValueError(f"columns: they are not those of {count} steps")
    floats_size = count * len(FLOATS) * _FLOAT_BYTES
    floats = _cut(array("f", _join(planes[:floats_size], _FLOAT_BYTES)).tolist(), count)
    floats[_COMPUTE] = array("f", map(add, floats[_COMPUTE], _find_rests(floats))).tolist()
    differences = _cut(array("q", _join(planes[floats_size:], _INTEGER_BYTES)).tolist(), count)
    microseconds, *integers = (list(accumulate(column)) for column in differences)
    times = [microsecond / 1e6 for microsecond in microseconds]
    return _make_columns(block.rank, times, floats, integers)


def _find_rests(floats: Sequence[Sequence[float]]) -> Iterator[float]:
    """Return the seconds of each step that went neither into loading data nor into waiting."""
    seconds, data, sync = (floats[FLOATS.index(name)] for name in ("seconds", "data", "sync"))
    return map(sub, map(sub, seconds, data), sync)


def _join(planes: bytes, width: int) -> bytes:
    """Put the bytes of each number beside each other again."""
    numbers = bytearray(len(planes))
    length = len(planes) // width
    for place in range(width):
        numbers[place::width] = planes[place * length : (place + 1) * length]
    return bytes(numbers)


def _cut(numbers: list[_Number], count: int) -> list[list[_Number]]:
    """Return the columns of so many numbers each."""
    return [numbers[start : start + count] for start in range(0, len(numbers), count)]
