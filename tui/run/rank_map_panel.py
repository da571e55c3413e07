"""The map of ranks: how late each of them was over time, or what each does in one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.strip import Strip

from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.panel import Panel
from tui.kit.widgets.lines import LineWidget
from tui.kit.widgets.table import CELL_STYLES, TableCell, cell_style_css
from tui.run.components.phase_line import phase_legend
from tui.run.components.rank_map import (
    NO_CELL,
    VALUE_WIDTH,
    MapLine,
    lateness_scale,
    name_width,
    over_step,
    over_time,
    step_heading,
)
from tui.run.components.rank_order import MARKED_FIRST, sort_ranks

MAX_RANKS = 64
"""Ranks beyond which there is no map: the strip above their table has a cell for each."""
MAX_LINE_HEIGHT = 3
"""Lines of the screen for a rank, at the most."""
ALL_ALIKE = "all alike: no rank has held up the others"
"""What stands in place of the ranks over time where they would be noise."""
TICKS_PER_DRAWING = 8
"""Ticks from one drawing to the next: it looks at the curves of all ranks."""


class MapLines(LineWidget, can_focus=True):
    """The lines of the map."""

    DEFAULT_CSS = f"""
    MapLines {{ height: 1fr; padding: 0 1; }}
    {cell_style_css("MapLines")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = set(CELL_STYLES)

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[MapLine] = ()
        self._name_width = 0

    def fill(self, lines: Sequence[MapLine], name_width: int) -> None:
        """Show these lines, with so many cells for their names."""
        if (lines, name_width) != (self._lines, self._name_width):
            self._lines = lines
            self._name_width = name_width
            self._strips.clear()
            self.refresh()

    def on_resize(self) -> None:
        self._strips.clear()

    @property
    def _line_height(self) -> int:
        """The lines of the screen that a rank has: more where there is room, and no bars."""
        if any(line.value.text for line in self._lines):
            return 1
        return max(1, min(MAX_LINE_HEIGHT, self.size.height // max(1, len(self._lines))))

    def render_line(self, y: int) -> Strip:
        """Draw line `y`."""
        if y not in self._strips:
            index, line_of_rank = divmod(y, self._line_height)
            segments: list[Segment] = []
            if index < len(self._lines):
                segments = self._segments(self._lines[index], has_texts=line_of_rank == 0)
            strip = Strip(segments)
            self._strips[y] = strip.crop_extend(0, self.size.width, self.rich_style)
        return self._strips[y]

    def _segments(self, line: MapLine, *, has_texts: bool) -> list[Segment]:
        name, value = (line.name, line.value) if has_texts else (NO_CELL, NO_CELL)
        cells = (TableCell(name.text.ljust(self._name_width), name.style), *line.cells)
        segments = [Segment(cell.text, self._cell_style(cell.style)) for cell in cells]
        num_used = sum(len(cell.text) for cell in cells) + len(value.text)
        segments.append(Segment(" " * (self.size.width - num_used), self.rich_style))
        value_parts = value.parts or ((value.text, value.style),)
        segments += [Segment(text, self._cell_style(style)) for text, style in value_parts]
        return segments

    def _cell_style(self, name: str) -> Style:
        return self.get_component_rich_style(name) if name else self.rich_style


class RankMapPanel(Panel):
    """How late each rank was from the first step on, or where the time of one step goes."""

    title = "ranks over time"
    place = KeyPlace.MAP
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    help = (
        "how long each rank was busy in each step, against the median of all ranks at that time: "
        "the darker, the later, amber for a rank that was slow; or one step of each rank, "
        "with data, compute and sync on one axis"
    )

    def __init__(self) -> None:
        super().__init__()
        self._tick = 0
        self._is_of_step = False
        self._drawn: tuple[object, ...] = ()
        self._time_lines: list[MapLine] = []

    def compose(self) -> ComposeResult:
        yield MapLines()

    def show(self, run: RunState) -> None:
        """Draw the step at each tick, as the table of ranks has its figures, too; what was before
        only now and then."""
        map_lines = self.query_one(MapLines)
        size = map_lines.size
        ranks = sort_ranks(run.ranks, run, MARKED_FIRST, 0)[: size.height]
        names_width = name_width(ranks, run)
        step_lines = over_step(ranks, run, size.width - names_width - VALUE_WIDTH)
        if self._is_of_step:
            self.title = "one step by rank"
            map_lines.fill(step_lines, names_width)
            self.caption(phase_legend())
            return
        self.title = "ranks over time"
        self._tick += 1
        inputs = (run, size, run.phase, [rank.rank for rank in ranks])
        if inputs != self._drawn or self._tick % TICKS_PER_DRAWING == 0:
            self._drawn = inputs
            self._time_lines = _time_lines(ranks, run, size.width - names_width)
        self.caption(lateness_scale() if has_differed(run) else "")
        lines = list(self._time_lines)
        # With room for both, the step stands below.
        if size.height > len(lines) + len(step_lines):
            lines += [step_heading(), *step_lines]
        map_lines.fill(lines, names_width)

    def action_one_step(self) -> None:
        """Show one step of each rank, or all steps."""
        self._is_of_step = not self._is_of_step


def _time_lines(ranks: Sequence[RankState], run: RunState, width: int) -> list[MapLine]:
    """Return the ranks over time, or a line that says why they are left out."""
    if has_differed(run):
        return over_time(ranks, run, busy_figure(run), width)
    return [MapLine(TableCell(ALL_ALIKE, "table--dim"))]


def busy_figure(run: RunState) -> str:
    """Return the figure that tells how long a rank is busy: until its gradients are ready, else
    the whole step."""
    return "ready" if run.curves.has_values("ready") else "seconds"


def has_differed(run: RunState) -> bool:
    """Return True if a rank was slow at any time: else the ranks over time are noise."""
    return bool(run.stragglers.episodes)


def has_map(run: RunState) -> bool:
    """Return True if there are several ranks to compare, and not too many."""
    return 2 <= len(run.ranks) <= MAX_RANKS and run.curves.has_values("seconds")
