"""The panels of the run screen: which of them are shown, where, and which charts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container

from remote.record.step_notes import StepNote
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase, Verdict
from tui.charts.deck import Deck
from tui.charts.drawing import Baseline
from tui.charts.kinds import ChartKind, available
from tui.charts.panel import Charts, charts_beside
from tui.kit.panel import Panel, ScreenRow
from tui.kit.run_session import RunSession
from tui.run.hosts_panel import HostsPanel
from tui.run.panels import PANELS

BESIDE = 120
"""Columns from which on the hosts stand beside the ranks; else they take the place of the charts,
while the run starts and if one goes there."""
GRID = 12
"""Columns of the grid that panels stand in."""
FLAT = 20
"""Rows below which charts and hosts are hidden."""
LOW = 13
"""Rows below which the log is hidden, too."""


class RunBody(Container):
    """The panels of a run, in rows as wide and as high as the screen has room for."""

    DEFAULT_CSS = """
    RunBody { layout: grid; grid-size: 12; grid-gutter: 0 2; height: 1fr; }
    RunBody.-past { opacity: 75%; }
    """

    def __init__(self, session: RunSession) -> None:
        super().__init__()
        self._session = session
        self.panels = [kind() for kind in PANELS for _ in range(kind.copies)]
        self._charts = [panel for panel in self.panels if isinstance(panel, Charts)]
        self.deck = Deck(session.plan, Charts.copies)
        self._hosts = next(panel for panel in self.panels if isinstance(panel, HostsPanel))
        self.notes: Sequence[StepNote] = ()
        self.baseline: Baseline | None = None
        self._first = 0  # the first chart that is shown
        self._different = Charts.copies  # charts that there are
        self._at_hosts: bool | None = None  # as the user has chosen
        self._places: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        for number, panel in enumerate(self.panels, 1):
            panel.number = number
            yield panel

    @property
    def _is_starting(self) -> bool:
        return self._session.state.phase is RunPhase.STARTING

    @property
    def _is_beside(self) -> bool:
        """Whether the hosts stand beside the ranks."""
        # A single host has nothing to tell but how it starts: the ranks have its figures.
        has_news = len(self._session.plan.hosts) > 1 or self._is_starting
        return self.app.size.width >= BESIDE and has_news

    @property
    def _shows_hosts(self) -> bool:
        """Whether the hosts take the place of the charts."""
        is_chosen = self._is_starting if self._at_hosts is None else self._at_hosts
        return is_chosen and not self._is_beside

    @property
    def _lines_needed(self) -> int:
        return max(kind.lines_needed(self._session.state) for kind in PANELS)

    def _seen_charts(self) -> list[int]:
        """The charts for which there is room, by their places; none twice."""
        num_charts = min(self._different, charts_beside(self.app.size.width))
        return sorted(
            (self._first + chart_index) % Charts.copies for chart_index in range(num_charts)
        )

    def lay_out(self) -> None:
        """Give each panel its place, and the ranks the rows that they need, beside other rows at
        most five twelfths of the screen: eight ranks on 24 lines."""
        height = self.app.size.height
        is_low = height < FLAT
        is_beside = self._is_beside
        shows_hosts = self._shows_hosts
        seen_places = [] if is_low or shows_hosts else self._seen_charts()
        row_spans = {
            ScreenRow.TOP: GRID * 2 // 3 if is_beside else GRID,
            ScreenRow.BOTTOM: GRID if height >= LOW else 0,
        }
        spans: dict[Panel, int] = {
            self._charts[chart_place]: GRID // len(seen_places) for chart_place in seen_places
        }
        spans[self._hosts] = GRID if shows_hosts and not is_low else 0
        if is_beside:
            spans[self._hosts] = GRID // 3
        for panel in self.panels:
            span = spans.get(panel, row_spans.get(panel.row, 0))
            panel.display = span > 0
            # A hidden panel takes no place, but textual takes no span of 0.
            panel.styles.column_span = max(span, 1)
        top_lines = min(self._lines_needed, max(4, height * 5 // 12))
        is_finished = self._session.state.verdict is Verdict.FINISHED
        row_heights = ["1fr" if height < LOW else str(top_lines)]
        if not is_low:
            row_heights.append("3fr")
        if height >= LOW:
            row_heights.append("1fr" if is_finished else "2fr")
        self.styles.grid_rows = " ".join(row_heights)

    def show(self, run: RunState) -> None:
        """Put the charts of the deck at their places, and the hosts away once the run trains."""
        # A script may start more ranks itself.
        places = (self._shows_hosts, self._is_beside, self._lines_needed)
        # Laying out draws the whole screen, so it is done only when something moves.
        if places != self._places:
            self._places = places
            self.lay_out()
        # `available` looks at all curves, so it is asked only while a wanted chart is missing.
        if not any(
            chart.needs_kind(self.deck.shown[chart_place])
            for chart_place, chart in enumerate(self._charts)
        ):
            return
        kinds = available(run)
        num_different = min(len(kinds), Charts.copies)
        if num_different != self._different:
            self._different = num_different
            self.lay_out()
        self._choose(kinds)

    def bring(self, panel: Panel) -> None:
        """Show a panel that may be hidden."""
        if isinstance(panel, HostsPanel):
            self._at_hosts = True
        elif isinstance(panel, Charts):
            self._at_hosts = False
            chart_place = self._charts.index(panel)
            if chart_place not in self._seen_charts():
                self._first = chart_place
        self.lay_out()

    @property
    def chart_in_focus(self) -> Charts:
        """The focused chart, or else the last one in view."""
        seen_charts = [self._charts[place] for place in self._seen_charts()]
        return next((chart for chart in seen_charts if chart.has_focus_within), seen_charts[-1])

    def put_chart(self, kind: ChartKind, panel: Charts, run: RunState) -> Charts:
        """Show a chart in this panel, or where the deck has it. Return its panel."""
        kinds = available(run)
        place = self.deck.put(self._charts.index(panel), kind, kinds)
        self._choose(kinds)
        return self._charts[place]

    def show_baseline(self, baseline: Baseline | None) -> None:
        """Draw the curves of a baseline behind those of the run; none if it is the run itself."""
        if baseline and baseline.run.plan.run == self._session.plan.run:
            baseline = None
        self.baseline = baseline
        for chart in self._charts:
            chart.show_baseline(baseline)

    def show_notes(self, notes: Sequence[StepNote]) -> None:
        """Mark these notes in the charts."""
        self.notes = notes
        for chart in self._charts:
            chart.show_notes(notes)

    @property
    def cursor_step(self) -> int | None:
        """Return the step at the cursor of the focused chart, or of another one in view."""
        charts = [self.chart_in_focus, *(self._charts[place] for place in self._seen_charts())]
        steps = [chart.cursor_step for chart in charts]
        return next((step for step in steps if step is not None), None)

    def redraw_charts(self, run: RunState) -> None:
        """Show the charts and views of the deck, which may be others by now."""
        for chart in self._charts:
            chart.is_chosen = False
        self._choose(available(run))

    def _choose(self, kinds: Sequence[ChartKind]) -> None:
        """Show the charts of the deck at their places."""
        for chart_place, chart in enumerate(self._charts):
            kind = self.deck.chart_at(chart_place, kinds)
            if chart.kind != kind or not chart.is_chosen:
                chart.choose(kind, self.deck.view(kind))
