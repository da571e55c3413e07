"""The panels of the run screen: which of them are shown, where, and which charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from remote.record.step_notes import StepNote
from remote.run.findings.start_progress import is_starting
from remote.run.findings.training_loss import find_divergence_step
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from tui.charts.deck import Deck
from tui.charts.drawing import Baseline
from tui.charts.kinds import ChartKind, available, has_anything_to_show
from tui.charts.panel import Charts
from tui.kit.draw_turn import DrawTurn
from tui.kit.panel import Panel
from tui.kit.replay import is_playing
from tui.kit.run_session import RunSession
from tui.kit.widgets.lines import SteadyWidget
from tui.log.panel import LogPanel
from tui.run.components.phase_line import PhaseLine
from tui.run.components.rank_columns import has_own_hosts
from tui.run.components.run_card import RunCard
from tui.run.hosts_panel import HostsPanel
from tui.run.layout import Arrangement, Contents, arrange
from tui.run.panels import KEY_ORDER, PANELS
from tui.run.rank_map_panel import RankMapPanel, has_differed, has_map
from tui.run.ranks_panel import RanksPanel

AnyPanel = TypeVar("AnyPanel", bound=Panel)

TICKS_PER_LOOK = 10
"""Ticks after which the charts that there are are looked for again."""


class BodyLayout(Layout):
    """Puts each part where `tui.run.layout` says."""

    name = "run-body"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """Return the places of the parts in view."""
        assert isinstance(parent, RunBody)
        regions = parent.regions(size)
        return [
            WidgetPlacement(regions[child], NULL_OFFSET, Spacing(), child)
            for child in children
            if regions.get(child)
        ]


class RunBody(Container, SteadyWidget):
    """The parts of a run, as wide and as high as the screen has room for."""

    DEFAULT_CSS = """
    RunBody { height: 1fr; }
    /* Below the texts of the header. */
    RunBody Panel { padding: 0 0 0 1; }
    RunBody.-framed Panel { border: round $ink-rule; padding: 0; }
    RunBody.-framed Panel:focus-within { border: heavy $primary; }
    RunBody.-past Panel { border-top: dashed $ink-rule 60%; }
    RunBody.-past.-framed Panel { border: dashed $ink-rule 60%; }
    /* Bright, what was before a stall would look like something that goes on. */
    RunBody.-stale Charts, RunBody.-stale PhaseLine { opacity: 65%; }
    """

    def __init__(self, session: RunSession) -> None:
        super().__init__()
        self._body_layout = BodyLayout()
        self._session = session
        self.panels = [kind() for kind in PANELS for _ in range(kind.copies)]
        self._charts = [panel for panel in self.panels if isinstance(panel, Charts)]
        self.deck = Deck(session.plan, Charts.copies)
        for panel in self.panels:
            if isinstance(panel, RanksPanel):
                panel.use_layout(self.deck)
        self._hosts = self._panel(HostsPanel)
        self._log = self._panel(LogPanel)
        self._phases = PhaseLine()
        self._card = RunCard()
        self._turn = DrawTurn()
        self._has_looked = False
        self.notes: Sequence[StepNote] = ()
        self.command = ""
        """The command line that starts such a run, once it is known."""
        self.baseline: Baseline | None = None
        self._first = 0  # the first chart that is shown
        self._page_start = 0  # the chart of the deck that is at the first place
        self._different = len(self.deck.shown)  # charts that there are
        self._in_place: Panel | None = None  # what the user has put in place of the charts
        self._contents: Contents | None = None

    def _panel(self, kind: type[AnyPanel]) -> AnyPanel:
        return next(panel for panel in self.panels if isinstance(panel, kind))

    @property
    def layout(self) -> Layout:
        """Return the layout of its parts."""
        return self._body_layout

    def compose(self) -> ComposeResult:
        # Before its parts are there, as a class that changes later has all of them styled anew.
        self.lay_out()
        yield self._card
        yield from self.panels
        yield self._phases

    # Where

    def contents(self) -> Contents:
        """Return what there is to show."""
        run = self._session.state
        plan = self._session.plan
        # Of hosts with one rank each, one table has the figures of both.
        has_own_table = len(run.ranks) > len(plan.hosts) > 1
        host_lines = len(plan.hosts) + 1 if has_own_table else 0
        # What the user has put in place of the charts is seen before the first step, too.
        is_start = is_starting(run) and self._in_place is None
        width = (self.size or self.app.size).width
        hides_ranks = is_start and has_own_hosts(plan)
        return Contents(
            charts=self._different,
            rank_lines=0 if hides_ranks else RanksPanel.lines_needed(run),
            host_lines=HostsPanel.start_lines(run, width) if is_start else host_lines,
            is_starting=is_start,
            shows_hosts=self._in_place is self._hosts,
            shows_map=isinstance(self._in_place, RankMapPanel),
            has_hosts=has_own_table,
            has_map=has_map(run),
            has_differed=has_differed(run),
            has_phases=PhaseLine.has_phases(run),
            is_over=run.phase is RunPhase.ENDED,
            has_failed=run.phase is RunPhase.ENDED and run.cause is not None,
            has_diverged=find_divergence_step(run) is not None,
        )

    def _arrangement(self, size: Size) -> Arrangement:
        self._contents = self._contents or self.contents()
        return arrange(size.width, size.height, self._contents)

    def regions(self, size: Size) -> dict[Widget, Region]:
        """Return the places of the parts that are shown in a room."""
        arrangement = self._arrangement(size)
        regions: dict[Widget, Region] = {
            self._phases: arrangement.phases,
            self._card: arrangement.card,
            self._hosts: arrangement.hosts,
            self._panel(RanksPanel): arrangement.ranks,
            self._panel(RankMapPanel): arrangement.rank_map,
            self._log: arrangement.log,
        }
        places = self._chart_places(len(arrangement.charts))
        for place, region in zip(places, arrangement.charts, strict=True):
            regions[self._charts[place]] = region
        return {part: region for part, region in regions.items() if region}

    def _chart_places(self, num_seen: int) -> list[int]:
        """The charts for which there is room, by their places; none twice."""
        num_charts = max(self._different, num_seen)
        return sorted((self._first + index) % num_charts for index in range(num_seen))

    @property
    def has_card(self) -> bool:
        """Return True if there is room for the card of the run."""
        return bool(self._arrangement(self.size or self.app.size).card)

    def lay_out(self) -> None:
        """Give each part its place, and the panels in view their numbers."""
        self._contents = self.contents()
        size = self.size or self.app.size
        regions = self.regions(size)
        for part in (*self.panels, self._phases, self._card):
            part.display = part in regions or part is self.screen.maximized
        self.set_class(self._arrangement(size).is_framed, "-framed")
        for number, panel in enumerate(self.numbered_panels, 1):
            panel.renumber(number)
        self.refresh(layout=True)

    @property
    def numbered_panels(self) -> list[Panel]:
        """Return the panels in the order of their keys: first those in view, so that the numbers
        on the screen have no holes, then the others from the last kind on. The table of ranks is
        always the first, also while the start of a run hides it."""

        def place(panel: Panel) -> tuple[bool, int]:
            index = KEY_ORDER.index(type(panel))
            is_first = panel.display or isinstance(panel, RanksPanel)
            return not is_first, index if is_first else -index

        return sorted(self.panels, key=place)

    def on_resize(self) -> None:
        self.lay_out()

    # What

    def show(self, run: RunState) -> None:
        """Put the charts of the deck at their places, and the hosts away once the run trains."""
        self._log.plays = is_playing(self._session)
        # Laying out draws the whole screen, so it is done only when something moves.
        if self.contents() != self._contents:
            self.lay_out()
        if self._phases.display:
            self._phases.show(run)
        if self._card.display:
            baseline_name = self.baseline.name if self.baseline else ""
            self._card.show(run, self.command, baseline_name, self.notes)
        # `available` looks at all curves, so it is asked only now and then, and while a wanted
        # chart of a job is missing; a script may never have it.
        is_missing = run.plan.job is not None and any(
            chart.needs_kind(name)
            for chart, name in zip(self._charts, self.deck.shown, strict=False)
        )
        is_missing = is_missing and not self._page_start
        if not (self._turn.has_come(TICKS_PER_LOOK) or is_missing or not self._has_looked):
            return
        self._has_looked = True
        kinds = _drawn_kinds(run)
        self._show_page(kinds)

    def _show_page(self, kinds: Sequence[ChartKind]) -> None:
        """Show the charts from the start of the page on, as many as there are."""
        if self._page_start >= len(kinds):  # a replay went back to before there were so many
            self._page_start = 0
        num_different = min(len(kinds) - self._page_start, Charts.copies)
        if num_different != self._different:
            self._different = num_different
            self.lay_out()
        self._choose(kinds)

    @property
    def page_size(self) -> int:
        """Return for how many charts there is room."""
        if isinstance(self.screen.maximized, Charts):
            return 1
        size = self.size or self.app.size
        contents = replace(self._contents or self.contents(), charts=Charts.copies)
        return max(1, len(arrange(size.width, size.height, contents).charts))

    def turn_page(self, step: int, run: RunState) -> tuple[int, int, int]:
        """Show the next (1) charts or those before (-1): after the last come the first.

        Return the numbers of the first and the last that are shown, and of all.
        """
        kinds = _drawn_kinds(run)
        size = self.page_size
        num_pages = max(1, -(-len(kinds) // size))
        self._page_start = size * ((self._page_start // size + step) % num_pages)
        self._first = 0
        self._in_place = None
        self._show_page(kinds)
        self.lay_out()
        last = min(self._page_start + size, len(kinds))
        return self._page_start + 1, last, len(kinds)

    def bring(self, panel: Panel) -> Panel:
        """Show a panel that may be hidden, and return the one to go to: from a chart that has the
        focus already, back to the first one."""
        if panel.display:
            if not self._first or panel is not self._focused_chart():
                return panel
            panel = self._charts[0]
        self._in_place = None if isinstance(panel, Charts) else panel
        if isinstance(panel, Charts):
            self._first = self._charts.index(panel)
        self.lay_out()
        return panel

    def _focused_chart(self) -> Charts | None:
        return next((chart for chart in self._charts if chart.has_focus_within), None)

    @property
    def chart_in_focus(self) -> Charts:
        """The focused chart, or else the last one in view."""
        seen_charts = [chart for chart in self._charts if chart.display] or self._charts[:1]
        return next((chart for chart in seen_charts if chart.has_focus_within), seen_charts[-1])

    def put_chart(self, kind: ChartKind, panel: Charts, run: RunState) -> Charts:
        """Show a chart in this panel, or where the deck has it. Return its panel."""
        kinds = _drawn_kinds(run)
        if self._page_start:
            self._page_start = 0
            self._show_page(kinds)
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
        charts = [self.chart_in_focus, *(chart for chart in self._charts if chart.display)]
        steps = [chart.cursor_step for chart in charts]
        return next((step for step in steps if step is not None), None)

    def redraw_charts(self, run: RunState) -> None:
        """Show the charts and views of the deck, which may be others by now."""
        for chart in self._charts:
            chart.is_chosen = False
        self._page_start = 0
        self._show_page(_drawn_kinds(run))

    def _choose(self, kinds: Sequence[ChartKind]) -> None:
        """Show the charts of the deck at their places."""
        for chart_place, chart in enumerate(self._charts if kinds else ()):
            kind = self.deck.chart_at(self._page_start + chart_place, kinds)
            if chart.kind != kind or not chart.is_chosen:
                chart.choose(kind, self.deck.view(kind))


def _drawn_kinds(run: RunState) -> list[ChartKind]:
    """Return the charts of a run in order; of a script only those with values, as it may never
    have others."""
    kinds = available(run)
    if run.plan.job:
        return kinds
    return [kind for kind in kinds if has_anything_to_show(kind, run)]
