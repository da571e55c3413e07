"""The list of all charts of a run, with their newest values, from which one chooses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import ClassVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from remote.run.run_state import RunState
from remote.run.series.downsampling import Floats
from tui.charts.chart_view import ChartView, CurveMode
from tui.charts.deck import Deck
from tui.charts.heading import format_newest
from tui.charts.kinds import ChartKind, available
from tui.charts.make_drawing import make_drawing
from tui.charts.smoothing import newest_known
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.inks import MUTED

SPARK_WIDTH = 16
"""Cells of the course of a chart's values."""
ROWS_AROUND = 6
"""Rows of the dialog around the list itself."""
LOG_RATIO = 30.0
"""A course whose greatest value is so many times its least is drawn by logarithms."""


class ListedChart(Struct, frozen=True):
    """A chart in the list."""

    kind: ChartKind
    newest: str
    """The newest value with its unit, or ""."""
    course: str
    """The values from the beginning to now, one cell for each part."""


class ChartUse(Enum):
    """What is to be done with the chart that was chosen, or with those on the screen."""

    PLACE = "place"
    KEEP = "keep"
    RESET = "reset"


class ChartPick(Struct, frozen=True):
    """What was chosen."""

    use: ChartUse
    kind: ChartKind | None = None
    """The chart for a place."""


def list_charts(run: RunState, deck: Deck) -> list[ListedChart]:
    """Return the charts of a run, whose lock is held, in their order."""
    return [_list_chart(run, kind, deck.view(kind)) for kind in available(run)]


def _list_chart(run: RunState, kind: ChartKind, view: ChartView) -> ListedChart:
    drawing = make_drawing(run, kind, replace(view.whole(), mode=CurveMode.MEAN))
    values = run.curves.whole(kind.series[0]).mean
    if kind.stacked:
        values = np.sum([line.points.mean for line in drawing.lines], axis=0)
        drawing = replace(drawing, newest=newest_known(values))
    text = format_newest(drawing, kind) if math.isfinite(drawing.newest) else ""
    return ListedChart(kind, text, course(values, SPARK_WIDTH))


def course(values: Floats, width: int) -> str:
    """Return how values went, as bars in at most `width` cells."""
    known = values[np.isfinite(values)]
    if not known.size:
        return ""
    if known.min() > 0 and known.max() > LOG_RATIO * known.min():
        known = np.log10(known)
    means = np.array([part.mean() for part in np.array_split(known, min(width, known.size))])
    extent = float(means.max() - means.min()) or 1.0
    # Never a full cell, which would touch the line above.
    shares = (means - means.min()) / extent * 0.87
    return "".join(map(palette.level_sign, shares))


def matching(charts: Sequence[ListedChart], pattern: str) -> list[ListedChart]:
    """Return the charts whose name or id a regular expression finds, or a text that is none yet."""
    try:
        find = re.compile(pattern, re.IGNORECASE).search
    except re.error:  # half an expression
        find = re.compile(re.escape(pattern), re.IGNORECASE).search
    return [chart for chart in charts if find(chart.kind.title) or find(chart.kind.id)]


class ChartList(ModalScreen[ChartPick | None]):
    """All charts of a run. Typing filters them; the result is what was chosen, if anything."""

    DEFAULT_CSS = """
    ChartList { align: center middle; background: $background 50%; }
    ChartList Vertical {
        width: 90; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $surface;
    }
    ChartList OptionList, ChartList OptionList:focus {
        height: auto; border: none; padding: 0; text-wrap: nowrap; text-overflow: ellipsis;
        background: $surface; background-tint: $surface 0%; scrollbar-size-vertical: 1;
    }
    ChartList Static { width: 1fr; height: auto; color: $text-muted; margin-top: 1; }
    """
    place = KeyPlace.CHART_LIST
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(
        self,
        charts: Sequence[ListedChart],
        focused: str = "",
        show_grid: Callable[[tuple[ChartKind, ...]], object] = lambda _: None,
    ) -> None:
        """`focused` is the id of the chart that the chosen one will replace; `show_grid` shows
        several charts over the list."""
        super().__init__()
        self._show_grid = show_grid
        self._charts = charts
        self._focused = focused
        self._matching = list(charts)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_subtitle = f"enter show it here, {key_of(self.app, 'back')}"
            yield Input(placeholder="type to filter; a regular expression", compact=True)
            yield OptionList()
            yield from self._help_lines()

    def _help_lines(self) -> Iterable[Widget]:
        keys = {
            "grid": "these as a grid",
            "keep-layout": "keep this layout",
            "reset-charts": "reset charts",
        }
        texts = [f"{key_of(self.app, name)} {text}" for name, text in keys.items()]
        yield Static("   ".join(texts), markup=False)

    def on_mount(self) -> None:
        self._show()
        self.query_one(Input).focus()

    def on_resize(self, event: Resize) -> None:
        self.query_one(OptionList).styles.max_height = max(1, event.size.height - ROWS_AROUND)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only the charts that match."""
        self._matching = matching(self._charts, event.value)
        self._show()

    def _show(self) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        title_width = max((len(chart.kind.title) for chart in self._charts), default=0)
        value_width = max((len(chart.newest) for chart in self._charts), default=0)
        for chart in self._matching:
            # As content, since brackets in a plain text would be markup.
            options.add_option(
                Content.assemble(
                    chart.kind.title.ljust(title_width + 2),
                    (chart.newest.rjust(value_width), "bold"),
                    "  ",
                    (chart.course.ljust(SPARK_WIDTH + 2), MUTED),
                    (chart.kind.help, MUTED),
                )
            )
        total = len(self._charts)
        matching_text = f", {len(self._matching)} of {total}" if len(self._matching) < total else ""
        self.query_one(Vertical).border_title = f"charts{matching_text}"
        ids = [chart.kind.id for chart in self._matching]
        if ids:
            options.highlighted = ids.index(self._focused) if self._focused in ids else 0

    # Keys

    def action_move(self, action: str) -> None:
        """Move in the list by an action of `OptionList`, such as `cursor_down`."""
        move_cursor = getattr(self.query_one(OptionList), f"action_{action}")
        move_cursor()

    def on_input_submitted(self) -> None:
        """Choose the chart at the cursor of the list."""
        self._choose(self.query_one(OptionList).highlighted)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_index)

    def _choose(self, index: int | None) -> None:
        if index is not None:
            self.dismiss(ChartPick(ChartUse.PLACE, self._matching[index].kind))

    def action_grid(self) -> None:
        """Show all charts that match."""
        if self._matching:
            self._show_grid(tuple(chart.kind for chart in self._matching))

    def action_keep_layout(self) -> None:
        """Remember the charts on the screen and their views."""
        self.dismiss(ChartPick(ChartUse.KEEP))

    def action_reset_charts(self) -> None:
        """Show the standard charts again."""
        self.dismiss(ChartPick(ChartUse.RESET))

    def action_back(self) -> None:
        self.dismiss(None)
