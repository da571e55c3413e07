"""Writes columns of numbers as rows of text, many at a time.

Rows are laid out in a matrix of bytes, in which each column has a place that is as wide as its
longest number. Tables say how groups of up to four digits are written. What a number leaves empty
of its place is NUL, and is taken out at last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from remote.metrics.steps import Floats, Ints

PIECE = 8192
"""Rows that are laid out together: they stay in the caches of a core."""
DIGITS = 9
"""As many digits tell any two floats of 32 bits apart."""
TIME_DECIMALS = 6
"""Times are in microseconds."""
MOST_DECIMALS = 18
MOST_EXACT = 2.0**53
"""Whole numbers below it are exact as floats."""
GROUP = 4
"""Digits that one look into a table writes, at most."""
KINDS = {1: "u1", 2: "<u2", 3: "V3", 4: "<u4"}
"""What holds the text of so many digits."""
NO_ROWS = np.empty(0, np.int64)
NO_TEXTS = np.empty(0, np.bytes_)
COMMA, DOT, MINUS, NEWLINE = b",.-\n"
Unsigned = NDArray[np.uint64]
Matrix = NDArray[np.uint8]


class Cells(Protocol):
    """The text of a column."""

    width: int
    """Bytes of the longest text."""

    def put(self, rows: Matrix, begin: int, first_row: int) -> None:
        """Put the text of as many rows as there are into their bytes from `begin` on."""


def format_columns(columns: Sequence[NDArray[Any] | list[str]]) -> Iterator[bytes]:
    """Yield the rows of columns, at least one, as lines of text with commas, many at a time.

    Floats are read back as they are, those of 32 bits as such. A whole number has no decimals.
    Texts of a list are of ASCII.
    """
    num_rows = len(columns[0])
    all_cells = [_make_cells(column) for column in columns]
    row_size = sum(cells.width + 1 for cells in all_cells)
    matrix = np.zeros((min(PIECE, num_rows), row_size), np.uint8)
    for first_row in range(0, num_rows, PIECE):
        rows = matrix[: num_rows - first_row]
        end = 0
        for cells in all_cells:
            cells.put(rows, end, first_row)
            end += cells.width + 1
            rows[:, end - 1] = COMMA
        rows[:, -1] = NEWLINE
        yield rows.tobytes().translate(None, b"\0")


def _make_cells(column: NDArray[Any] | list[str]) -> Cells:
    if isinstance(column, list):
        return TextCells(np.array(column, np.bytes_))
    if column.dtype != np.float64:
        return NumberCells(np.abs(column).astype(np.uint64), 0, column < 0, NO_ROWS, NO_TEXTS)
    return _make_float_cells(np.ascontiguousarray(column))


def _make_float_cells(column: Floats) -> Cells:
    are_finite = np.isfinite(column)
    sizes = np.abs(column, where=are_finite, out=np.zeros_like(column))
    largest = float(sizes.max())
    kind, decimals = _choose_precision(column, are_finite, largest)
    scale = 10.0**decimals
    if decimals > MOST_DECIMALS or largest * scale >= MOST_EXACT:
        return TextCells(_format_shortest(column))
    numbers = np.rint(sizes * scale)
    are_written = (numbers / scale).astype(kind) == np.abs(column).astype(kind)
    odd_rows = np.flatnonzero(~are_written)
    if len(odd_rows) > len(column) / 2:
        return TextCells(_format_shortest(column))
    odd_texts = _format_shortest(column[odd_rows])
    return NumberCells(numbers.astype(np.uint64), decimals, column < 0, odd_rows, odd_texts)


def _choose_precision(
    column: Floats, are_finite: NDArray[np.bool_], largest: float
) -> tuple[DTypeLike, int]:
    """Return the type as which numbers of a column are read back, and with how many decimals they
    are written. Those for which these are too few are written in their own ways."""
    if ((np.rint(column) == column) | ~are_finite).all():
        return np.float64, 0
    with np.errstate(over="ignore"):
        narrow_column = column.astype(np.float32)
    if ((narrow_column == column) | ~are_finite).all():
        return np.float32, max(0, DIGITS - math.floor(math.log10(largest)))
    return np.float64, TIME_DECIMALS


def _format_shortest(numbers: Floats) -> NDArray[np.bytes_]:
    """Return for each number the shortest text that is read back as it."""
    text = msgspec.json.encode(numbers.tolist()).strip(b"[]")
    texts = np.array((text + b",").replace(b".0,", b",").split(b",")[:-1], np.bytes_)
    for number, name in ((np.inf, "inf"), (-np.inf, "-inf")):
        texts[numbers == number] = name  # in JSON, it is null
    texts[np.isnan(numbers)] = "nan"
    return texts


class TextCells:
    """Texts of any kind."""

    def __init__(self, texts: NDArray[np.bytes_]) -> None:
        self.width = texts.itemsize
        self._texts = texts

    def put(self, rows: Matrix, begin: int, first_row: int) -> None:
        """Put the text of rows, see `Cells`."""
        _view(rows, begin, f"S{self.width}")[:] = self._texts[first_row : first_row + len(rows)]


class NumberCells:
    """Numbers with the same number of decimals, but for zeros at the end."""

    def __init__(
        self,
        numbers: Unsigned,
        decimals: int,
        are_negative: NDArray[np.bool_],
        odd_rows: Ints,
        odd_texts: NDArray[np.bytes_],
    ) -> None:
        """`numbers` are without sign, in units of the last decimal. Odd rows, in order, have texts
        of their own."""
        self._numbers = numbers
        self._are_negative = are_negative if are_negative.any() else None
        self._odd_rows = odd_rows
        self._odd_texts = odd_texts
        self._decimals = decimals
        self._whole_digits = len(str(int(numbers.max()) // 10**decimals))
        sign_width = 0 if self._are_negative is None else 1
        dot_width = 1 if decimals else 0
        width = sign_width + self._whole_digits + dot_width + decimals
        self.width = max(width, odd_texts.itemsize)

    def put(self, rows: Matrix, begin: int, first_row: int) -> None:
        """Put the text of rows, see `Cells`."""
        end_row = first_row + len(rows)
        if len(self._odd_rows):
            rows[:, begin : begin + self.width] = 0  # of earlier rows, which were longer
        numbers = self._numbers[first_row:end_row]
        end = begin + self.width
        if self._decimals:
            numbers = _put_decimals(rows, end, numbers, self._decimals)
            end -= self._decimals + 1
        _put_whole(rows, end, numbers, self._whole_digits)
        if self._are_negative is not None:
            rows[:, end - self._whole_digits - 1] = self._are_negative[first_row:end_row] * MINUS
        odd_begin, odd_end = np.searchsorted(self._odd_rows, (first_row, end_row))
        if odd_begin < odd_end:
            places = self._odd_rows[odd_begin:odd_end] - first_row
            _view(rows, begin, f"S{self.width}")[places] = self._odd_texts[odd_begin:odd_end]


def _put_decimals(rows: Matrix, end: int, numbers: Unsigned, decimals: int) -> Unsigned:
    """Put the last digits of numbers, and a dot before them. Return the numbers without these."""
    # The last group may be of zeros in some rows, whose next one ends in zeros then, and so on.
    zero_rows: Ints | None = None
    for digits in _list_groups(decimals):
        numbers, group = _split(numbers, digits)
        texts = _find_tables(digits).ends
        if zero_rows is None:
            zero_rows = np.flatnonzero(group == 0)
            group += 10**digits
        elif len(zero_rows):
            are_zeros = group[zero_rows] == 0
            group[zero_rows] += 10**digits
            zero_rows = zero_rows[are_zeros]
        end -= digits
        _view(rows, end, KINDS[digits])[:] = texts[group]
    rows[:, end - 1] = DOT
    rows[zero_rows, end - 1] = 0
    return numbers


def _put_whole(rows: Matrix, end: int, numbers: Unsigned, most_digits: int) -> None:
    """Put whole numbers, the longest of which has so many digits."""
    is_last_group = True
    for digits in _list_groups(most_digits):
        numbers, group = _split(numbers, digits)
        group += (numbers == 0) * np.int64(10**digits)
        tables = _find_tables(digits)
        texts = tables.last if is_last_group else tables.starts
        end -= digits
        _view(rows, end, KINDS[digits])[:] = texts[group]
        is_last_group = False


class GroupTables(NamedTuple):
    """How groups of some digits are written, by their value: first all with all digits, then all
    without some zeros."""

    starts: NDArray[Any]
    """Without zeros at the start."""
    last: NDArray[Any]
    """The same, but 0 as 0."""
    ends: NDArray[Any]
    """Without zeros at the end."""


@cache
def _find_tables(digits: int) -> GroupTables:
    texts = [b"%0*d" % (digits, number) for number in range(10**digits)]
    starts = [text.lstrip(b"0").rjust(digits, b"\0") for text in texts]
    zero = b"0".rjust(digits, b"\0")
    ends = [text.rstrip(b"0").ljust(digits, b"\0") for text in texts]
    kind = KINDS[digits]
    return GroupTables(
        starts=np.frombuffer(b"".join(texts + starts), kind),
        last=np.frombuffer(b"".join([*texts, zero, *starts[1:]]), kind),
        ends=np.frombuffer(b"".join(texts + ends), kind),
    )


def _list_groups(digits: int) -> list[int]:
    """Return the lengths of the groups of so many digits, the last one first."""
    rest = digits % GROUP
    return [GROUP] * (digits // GROUP) + ([rest] if rest else [])


def _split(numbers: Unsigned, digits: int) -> tuple[Unsigned, Ints]:
    """Return numbers without their last digits, and these."""
    unit = np.uint64(10**digits)
    rests = numbers // unit
    return rests, (numbers - rests * unit).view(np.int64)


def _view(rows: Matrix, begin: int, kind: str) -> NDArray[Any]:
    """Return the bytes of each row that begin there as values of a kind."""
    num_rows, row_size = rows.shape
    return np.ndarray((num_rows,), kind, rows, begin, (row_size,))
