"""Several charts of a run at once, in a grid with pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.record.step_notes import StepNote
from tui.charts.deck import Deck
from tui.charts.drawing import Baseline
from tui.charts.kinds import ChartKind
from tui.charts.panel import Charts, charts_beside
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.run_session import LiveScreen, RunSession
from tui.kit.widgets.keys import KeyFooter

ROWS_PER_CHART = 10
"""Rows of the screen that a chart needs to be read."""
MAX_CHARTS = 6
"""Charts of a page: of more, none has the room to be read closely."""
ROWS_AROUND = 2
"""Rows of the title and of the keys."""


class ChartGrid(LiveScreen, Screen[None]):
    """The charts that one has asked for, as many at once as there is room for."""

    CSS = """
    ChartGrid #title { height: 1; padding: 0 1; background: $panel; }
    ChartGrid #grid { layout: grid; grid-gutter: 0 2; height: 1fr; }
    ChartGrid .-maximized { height: 1fr; }
    """
    place = KeyPlace.GRID
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(
        self,
        session: RunSession,
        kinds: Sequence[ChartKind],
        deck: Deck,
        baseline: Baseline | None = None,
        notes: Sequence[StepNote] = (),
    ) -> None:
        super().__init__()
        self.session = session
        self._deck = deck
        self._panels = [Charts() for _ in kinds]
        for panel, kind in zip(self._panels, kinds, strict=True):
            panel.choose(kind, deck.view(kind))
            panel.show_baseline(baseline)
            panel.show_notes(notes)
        self._page = 0
        self._num_pages = 1

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with Container(id="grid"):
            yield from self._panels
        yield KeyFooter()

    def on_mount(self) -> None:
        self._show_page(0)
        self.tick()

    def on_resize(self, event: Resize) -> None:
        self._show_page(self._page)
        # The charts have their new sizes only after the next refresh.
        self.call_after_refresh(self.tick)

    def _show_page(self, page: int) -> None:
        """Lay out the charts of a page, and focus the first unless one of them is focused."""
        width, height = self.app.size
        columns = min(charts_beside(width), len(self._panels))
        rows = max(1, (height - ROWS_AROUND) // ROWS_PER_CHART)
        rows = min(rows, MAX_CHARTS // columns)
        per_page = columns * rows
        self._num_pages = -(-len(self._panels) // per_page)
        self._page = min(max(page, 0), self._num_pages - 1)
        first = self._page * per_page
        on_page = self._panels[first : first + per_page]
        for panel in self._panels:
            panel.display = panel in on_page
        grid = self.query_one("#grid")
        grid.styles.grid_size_columns = columns
        grid.styles.grid_size_rows = min(rows, -(-len(self._panels) // columns))
        self._show_title(first, len(on_page))
        self.refresh_bindings()
        if not any(panel.has_focus_within for panel in on_page):
            self.set_focus(on_page[0].children[0] if on_page[0].children else None)

    def _show_title(self, first: int, count: int) -> None:
        title = f"charts {first + 1} to {first + count} of {len(self._panels)}"
        if self._num_pages > 1:
            keys = f"{key_of(self.app, 'page-before')}, {key_of(self.app, 'page-after')}"
            title += f"   page {self._page + 1} of {self._num_pages} ({keys})"
        self.query_one("#title", Static).update(title)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer other pages only where there are some."""
        return action != "page" or self._num_pages > 1

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while the charts copy from it."""
        with self.app.batch_update(), self.session.lock:
            for panel in self._panels:
                if panel.display and self.maximized in (None, panel):
                    panel.show(self.session.state)

    def on_charts_view_changed(self, message: Charts.ViewChanged) -> None:
        self._deck.set_view(message.kind, message.view)
        self.tick()

    # Keys

    def action_page(self, step: int) -> None:
        """Show the next page, or (-1) the one before."""
        self._show_page(self._page + step)
        self.call_after_refresh(self.tick)

    def action_zoom(self) -> None:
        """Zoom the focused chart to the whole screen, and back."""
        focused = next((panel for panel in self._panels if panel.has_focus_within), None)
        if self.maximized is not None:
            self.minimize()
        elif focused:
            self.maximize(focused)
        self.call_after_refresh(self.tick)

    def action_back(self) -> None:
        """Leave a chart's cursor, then its zoom, then a chart that fills the screen, then this."""
        focused = next((panel for panel in self._panels if panel.has_focus_within), None)
        if focused and focused.layered:
            focused.leave()
        elif self.maximized is not None:
            self.action_zoom()
        else:
            self.dismiss()
