"""Puts the widgets of a screen together, and asks them only for what has changed.

Textual's own compositor asks every widget for all rows of the smallest rectangle around all that
has changed, and so most ticks of a dashboard for the whole screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Row = dict[int, Strip | None]
"""What is drawn of a row, by the columns at which its parts begin; None where nothing is."""


class Sparing(Compositor):
    """Draws what has changed and nothing else; also no widget that others cover."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What has changed since the last update."""
        screen = self.size.region
        spans = list(self._regions_to_spans(map(screen.intersection, self._dirty_regions)))
        self._dirty_regions.clear()
        if not spans:
            return None
        rows: list[Row] = [dict.fromkeys(cuts[:-1]) for cuts in self.cuts]
        missing = self._changed(spans)
        for widget, (region, clip) in self.visible_widgets.items():  # from the front to the back
            self._draw(widget, region, region.intersection(clip), rows, missing)
            if not missing:
                break
        return ChopsUpdate(rows, spans, [cuts[1:] for cuts in self.cuts])

    def _changed(self, spans: Iterable[tuple[int, int, int]]) -> dict[int, set[int]]:
        """The parts of rows that overlap the spans."""
        changed: dict[int, set[int]] = {}
        for y, left, right in spans:
            parts = changed.setdefault(y, set())
            parts.update(x for x, end in pairwise(self.cuts[y]) if x < right and end > left)
        return {y: parts for y, parts in changed.items() if parts}

    def _draw(
        self,
        widget: Widget,
        region: Region,
        seen: Region,
        rows: list[Row],
        missing: dict[int, set[int]],
    ) -> None:
        """Put the parts of a widget that are `missing` into the rows."""
        wanted = [y for y in seen.line_range if _has_any(missing.get(y), seen)]
        for first, count in _together(wanted):
            part = Region(seen.x - region.x, first - region.y, seen.width, count)
            for y, strip in enumerate(widget.render_lines(part), first):
                cuts = [x for x in self.cuts[y] if seen.x <= x <= seen.right]
                for x, piece in zip(
                    cuts, strip.divide([x - seen.x for x in cuts[1:]]), strict=False
                ):
                    if x in missing[y]:
                        rows[y][x] = piece
                        missing[y].remove(x)
                if not missing[y]:
                    del missing[y]


def _has_any(parts: set[int] | None, seen: Region) -> bool:
    return parts is not None and any(seen.x <= x < seen.right for x in parts)


def _together(rows: list[int]) -> Iterator[tuple[int, int]]:
    """The rows that lie beneath each other, as the first one and their number."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end] > rows[end - 1] + 1:
            yield rows[start], end - start
            start = end
