"""What stands below a chart: marks on the x axis, its ticks and its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from remote.run.series import marks as run_marks
from tui.charts import axis
from tui.charts.axis import Axis, Tick
from tui.charts.raster import cell_at
from tui.kit import palette

Mark = tuple[float, str]
"""An x that is marked, and the letter that says with what."""

NOTE_LETTER = "N"
RARE_MARKS = {
    NOTE_LETTER: "note",
    **{letter: run_marks.KINDS[letter] for letter in (run_marks.RESTART, run_marks.STALL)},
}
"""The marks of what happens seldom: what they stand for by their letters."""
MARK_NAMES = RARE_MARKS | run_marks.KINDS
"""The names of all marks. Those that come first have the place that several want."""
MIN_ROWS_FOR_RARE_MARKS = 4
MIN_ROWS_FOR_MARKS = 9
"""Rows of cells from which on one of them is given to marks."""
MAX_MARKS_OF_LETTER = 8
"""Marks of a letter at most, so that charts of several widths have the same ones."""
COLUMNS_PER_MARK = 4
"""Columns of cells from one of them to the next, at least."""
COLUMNS_APART = 3
"""Columns from a mark to that of another letter."""
STRIDES = (1, 2, 5)
"""Of marks that are too dense, each second, fifth, tenth, … is drawn."""
CELLS_PER_NUMBER = 11
CELLS_PER_TIME = 10
"""Cells of the axis for each of its ticks."""
MORE_TICKS = 8
"""How many more ticks are tried if less than two have room."""
MIN_ROOM_SHARE, MIN_ROOM_SHARE_OF_NAME = 1.8, 3
"""How many times wider an axis is than its name and those of marks, which explain letters, and than
its name alone."""
GAP = "  "


class MarkRow(Struct, frozen=True):
    """A row with the letters of marks, and what they stand for."""

    text: str
    names: str


def make_mark_row(
    marks: Sequence[Mark],
    x_axis: Axis,
    width: int,
    rows: int,
    along: str,
    strides: Mapping[str, int],
) -> MarkRow | None:
    """Return the row of marks of a chart with so many rows, or None if there is nothing to mark or
    no room for it.

    A mark that is missing is read as something that did not happen. So of what happens often, each
    n-th mark is drawn, as its name says, or none: also where that would touch marks of another
    letter, or its name has no room beside that of the axis. `strides` has which n-th ones `marks`
    are already.
    """
    if rows < MIN_ROWS_FOR_RARE_MARKS:
        return None
    names = MARK_NAMES if rows >= MIN_ROWS_FOR_MARKS else RARE_MARKS
    cells = [palette.sign("rest")] * width
    taken_by_rare: list[int] = []
    taken_by_regular: list[int] = []
    drawn_names: list[str] = []
    for letter, name in names.items():
        columns, stride = _thinned_columns(marks, letter, x_axis, width)
        text = _mark_name(letter, name, stride * strides.get(letter, 1))
        if not columns or not _has_room([*drawn_names, text, along], width):
            continue
        if letter in RARE_MARKS:
            columns = [column for column in columns if _is_apart(column, taken_by_rare)]
            taken_by_rare += columns
        elif all(_is_apart(column, taken_by_regular) for column in columns):
            taken_by_regular += columns
            # What is rare stays where both are.
            columns = [column for column in columns if cells[column] not in RARE_MARKS]
        else:
            columns = []
        for column in columns:
            cells[column] = letter
        if columns:
            drawn_names.append(text)
    return MarkRow("".join(cells), "  ".join(drawn_names)) if drawn_names else None


def _is_apart(column: int, others: Sequence[int]) -> bool:
    return all(abs(column - other) >= COLUMNS_APART for other in others)


def _mark_name(letter: str, name: str, stride: int) -> str:
    """Return what a letter stands for: "T test", or "E 5 epochs"."""
    return f"{letter} {name}" if stride == 1 else f"{letter} {stride} {name}s"


def _has_room(names: Sequence[str], width: int, share: float = MIN_ROOM_SHARE) -> bool:
    """Return True if an axis is so many times wider than names that stand below it."""
    return width > share * sum(len(GAP) + len(name) for name in names)


def _thinned_columns(
    marks: Sequence[Mark], letter: str, x_axis: Axis, width: int
) -> tuple[Sequence[int], int]:
    """Return the columns of each n-th mark of a letter, so few that they do not touch, and n."""
    columns = [
        cell_at(x_axis.share_of(x), width)
        for x, mark_letter in marks
        if mark_letter == letter and x_axis.low <= x <= x_axis.high
    ]
    if letter in RARE_MARKS:
        return sorted(set(columns)), 1
    for stride in _strides():
        # Each stride counts from the first mark, so that what is drawn stays while marks come.
        thinned = columns[::stride]
        gaps = [after - before for before, after in pairwise(thinned)]
        has_room = min(gaps, default=COLUMNS_PER_MARK) >= COLUMNS_PER_MARK
        if has_room and len(thinned) <= MAX_MARKS_OF_LETTER:
            return thinned, stride
    raise AssertionError("a stride leaves one mark")


def _strides() -> Iterator[int]:
    power = 1
    while True:
        yield from (factor * power for factor in STRIDES)
        power *= 10


def make_labels(
    x_axis: Axis,
    along: str,
    mark_names: str,
    width: int,
    room: int,
    *,
    is_clock: bool,
    only_whole: bool,
) -> str:
    """Return the row with the ticks of an axis of `width` cells, each centred under its place.

    The names of marks and that of the axis stand at its end, as far as `room` reaches.
    """
    names = [name for name in (mark_names, along) if name]
    share = MIN_ROOM_SHARE if mark_names else MIN_ROOM_SHARE_OF_NAME
    name = "".join(f"{GAP}{name}" for name in names) if _has_room(names, width, share) else ""
    room_for_ticks = room - len(name)
    least_count = max(2, width // (CELLS_PER_TIME if is_clock else CELLS_PER_NUMBER))
    # Of few ticks, some may have no room: then there are more, until two can be read.
    for count in range(least_count, least_count + MORE_TICKS):
        if is_clock:
            ticks = axis.clock_ticks(x_axis, count)
        else:
            ticks = axis.number_ticks(x_axis, count, whole=only_whole)
        line, num_ticks = _tick_line(x_axis, ticks, width, room_for_ticks)
        if num_ticks > 1:
            break
    return line + name


def _tick_line(x_axis: Axis, ticks: Sequence[Tick], width: int, room: int) -> tuple[str, int]:
    """Return a line with as many of the ticks as there is room for, and their number."""
    line = [" "] * room
    free_from = 0
    num_ticks = 0
    for value, text in ticks:
        center = cell_at(x_axis.share_of(value), width)
        start = max(0, center - len(text) // 2)
        if free_from <= start <= room - len(text):
            line[start : start + len(text)] = text
            free_from = start + len(text) + 2
            num_ticks += 1
    return "".join(line), num_ticks
