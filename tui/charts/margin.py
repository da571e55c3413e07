"""The names of curves at the right of a chart, each at the height where its curve ends."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

Segments = tuple[tuple[str, int], ...]
"""Texts beside each other with the numbers of their inks, or -1 for that of an axis."""

GAP = 1
"""Cells between a curve and its name."""
VALUE_WIDTH = 6
"""Cells that a value has at least, so that the margin stays while values change."""
MAX_SHARE_WITH_VALUES = 1 / 5
MAX_SHARE_OF_NAMES = 1 / 4
"""The shares of a chart that names may take, with and without values."""


class EndName(Struct, frozen=True):
    """A name and the height at which it is to stand."""

    name: str
    value: str
    colour: int
    row: float
    """How many rows below the top the curve ends."""
    x: float
    """Where on the x axis it ends."""

    def text(self, has_value: bool) -> str:
        """Return the name, with its value if there is room for that."""
        return f"{self.name} {self.value}".strip() if has_value else self.name


class Margin(Struct, frozen=True):
    """A segment of each row at the right of a picture."""

    rows: tuple[Segments, ...] = ()
    width: int = 0

    def with_names(self, names: Sequence[EndName]) -> Margin:
        """Return a margin of this width with only these of its names, without values."""
        by_row = _in_rows(names, len(self.rows))
        rows = tuple(_segments(line, False, self.width) for line in by_row)
        return Margin(rows, self.width)


def make_margin(
    names: Sequence[EndName], rows: int, width: int, max_share: float = MAX_SHARE_WITH_VALUES
) -> Margin:
    """Return the margin of a chart that is so wide, without values if there is little room.

    It is empty if it has no room for the names either.
    """
    has_values = any(name.value for name in names)
    for has_value, share in ((has_values, max_share), (False, MAX_SHARE_OF_NAMES)):
        by_row = _in_rows(names, rows)
        margin_width = GAP + max((_width(line, has_value) for line in by_row), default=0)
        if names and margin_width <= share * width:
            segments = [_segments(line, has_value, margin_width) for line in by_row]
            return Margin(tuple(segments), margin_width)
    return Margin(((),) * rows)


def _width(names: Sequence[EndName], has_value: bool) -> int:
    widths = []
    for name in names:
        value_width = max(VALUE_WIDTH, len(name.value)) if name.value else 0
        widths.append(len(name.name) + (GAP + value_width if has_value and value_width else 0))
    return sum(widths) + GAP * (len(widths) - 1)


def _segments(names: Sequence[EndName], has_value: bool, width: int) -> Segments:
    segments: list[tuple[str, int]] = []
    for name in names:
        segments.append((" " * GAP + name.text(has_value), name.colour))
    rest = width - sum(len(text) for text, _ in segments)
    return (*segments, (" " * rest, -1))


def _in_rows(names: Sequence[EndName], rows: int) -> list[list[EndName]]:
    """Share rows among names in the order of their heights, each as near to its own as it can be.

    If there are more names than rows, several stand beside each other.
    """
    ordered = sorted(names, key=lambda name: name.row)
    by_row: list[list[EndName]] = [[] for _ in range(rows)]
    if len(ordered) > rows:
        for index, name in enumerate(ordered):
            by_row[index * rows // len(ordered)].append(name)
        return by_row
    free_row = 0
    places = []
    for name in ordered:
        free_row = max(free_row, int(name.row))
        places.append(free_row)
        free_row += 1
    last_row = rows - 1
    # What was pushed beyond the last row goes back up, and pushes what is above.
    for index in reversed(range(len(places))):
        places[index] = min(places[index], last_row)
        last_row = places[index] - 1
    for place, name in zip(places, ordered, strict=True):
        by_row[place].append(name)
    return by_row
