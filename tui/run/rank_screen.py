"""The page of a rank: its figures, its process and host, its curves, and its log or its stack."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.run.run_state import RunState
from remote.run.series.definitions import SERIES, Scope
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from remote.sanitise import plain
from tui.charts.chart_view import ChartView, CurveMode
from tui.charts.kinds import ChartKind, available
from tui.charts.panel import Charts, charts_beside
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.replay import is_playing
from tui.kit.run_session import LiveScreen, RunSession
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.table import CELL_STYLES
from tui.log.panel import LogPanel
from tui.run.components.rank_cells import state_cell
from tui.run.components.rank_facts import TROUBLE, RankFact, rank_facts
from tui.run.components.stack_text import stack_lines

PLACES = {"loss": 0, "ready": 1, "cpu": 2, "seconds": 3}
"""The charts that stand first, by their ids."""
TOPIC_WIDTH = 10
"""Columns of what a fact is about."""
NOTHING = Content("")
TALL = 30
"""Rows from which on there is room for all facts."""


class RankScreen(Screen[None], LiveScreen):
    """One rank of a run. `tick` draws what has changed."""

    CSS = """
    RankScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    RankScreen VerticalScroll { padding: 0 1; scrollbar-size-vertical: 1; }
    RankScreen #facts { height: auto; max-height: 50%; }
    RankScreen #charts { height: 2fr; min-height: 4; }
    RankScreen Charts { margin-left: 2; }
    RankScreen Charts:first-of-type { margin-left: 0; }
    RankScreen LogPanel, RankScreen #stack { height: 3fr; min-height: 3; }
    RankScreen #stack { border-top: solid $ink-rule; border-title-color: $text-muted; }
    RankScreen #stack:focus { border-top: heavy $primary; border-title-color: $text; }
    RankScreen #stack { display: none; }
    RankScreen.-stack #stack { display: block; }
    RankScreen.-stack LogPanel { display: none; }
    RankScreen.-low #charts, RankScreen.-bare #charts { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (18, "-tall")]  # noqa: RUF012
    place = KeyPlace.RANK
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: RunSession, rank: int, *, can_ask: bool = True) -> None:
        """`can_ask`: the ranks can be asked for stacks; else only what is recorded is shown."""
        super().__init__()
        self.session = session
        self._asks = can_ask
        self._rank = rank
        self._clock = SessionClock()
        self._first = 0
        self._drawn: dict[str, Content] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with VerticalScroll(id="facts"):
            yield Static()
        with Horizontal(id="charts"):
            for _ in range(Charts.copies):
                yield Charts()
        yield LogPanel()
        with VerticalScroll(id="stack"):
            yield Static()
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#stack").border_title = " stack, newest call first "
        self.query_one("#facts").focus()
        self.tick()

    # The parts have their new sizes only after the refresh.
    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer other ranks only where there are some."""
        return action != "rank" or len(self.session.state.ranks) > 1

    def on_charts_view_changed(self) -> None:
        self.tick()

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while this copies from it."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            rank = run.rank(self._rank)
            now = self._clock.now(run)
            if rank is None:
                self._leave_out(run)
                return
            self._show_facts(rank, run, now)
            self._show_charts(run)
            self._show_log(run)
            if self.has_class("-stack"):
                self._show_stack(rank, run, now)

    def _leave_out(self, run: RunState) -> None:
        """The run has been restarted without the rank: go back to the run."""
        if self.is_active:  # else once what lies over it is closed
            self.notify(f"rank {self._rank} is not part of attempt {run.attempt + 1}")
            self.dismiss()

    def _show_log(self, run: RunState) -> None:
        log_panel = self.query_one(LogPanel)
        log_panel.fix_rank(self._rank)
        log_panel.plays = is_playing(self.session)
        log_panel.show(run)

    def _show_facts(self, rank: RankState, run: RunState, now: float) -> None:
        width, height = self.app.size
        rank_state = state_cell(rank, run, now)
        rank_text = f"rank {rank.rank} of {len(run.ranks)}, on {plain(run.host_name(rank.host))}"
        title = Content.assemble(
            rank_text, "  ", (rank_state.text, CELL_STYLES.get(rank_state.style, ""))
        )
        keys_hint = f"{palette.sign('less')} {palette.sign('more')} other ranks"
        room_left = width - 2 - title.cell_length - len(keys_hint)
        if room_left > 1:
            title = Content.assemble(title, " " * room_left, (keys_hint, "$text-muted"))
        facts = rank_facts(rank, run, now, is_roomy=height >= TALL)
        self._update_changed("#title", title)
        fact_lines = Content("\n").join(_fact_lines(fact, width - 2) for fact in facts)
        self._update_changed("#facts Static", fact_lines)

    def _update_changed(self, selector: str, content: Content) -> None:
        """Show a text, which is laid out again only if it has changed."""
        if not content.is_same(self._drawn.get(selector, NOTHING)):
            self._drawn[selector] = content
            self.query_one(selector, Static).update(content)

    def _show_charts(self, run: RunState) -> None:
        """Draw as many charts as have room beside each other, each of the rank against the mean of
        all."""
        kinds = _rank_charts(run, self._rank)
        self.set_class(not kinds, "-bare")
        num_charts = min(charts_beside(self.app.size.width), len(kinds))
        for chart_place, chart in enumerate(self.query(Charts)):
            chart.display = chart_place < num_charts
            if not chart.display:
                continue
            kind = kinds[(self._first + chart_place) % len(kinds)]
            if chart.needs_kind(kind.id):
                chart.choose(kind, ChartView(smoothing=0.0))
            curve_rows = run.curves.rows(kind.series[0])
            # Before its first value, a series has no rows.
            rank_row = curve_rows.index(self._rank) if curve_rows else 0
            # An equal view is not set: each that is set causes another tick.
            chart.set_view(structs.replace(chart.view, mode=CurveMode.ONE, one=rank_row))
            chart.show(run)

    def _show_stack(self, rank: RankState, run: RunState, now: float) -> None:
        width = self.query_one("#stack").size.width - 2
        self._update_changed(
            "#stack Static", Content("\n").join(stack_lines(run, [rank], now, width))
        )

    # Keys

    def action_rank(self, step: int) -> None:
        """Go to the next rank, or the one before."""
        self._rank = (self._rank + step) % len(self.session.state.ranks)
        self.tick()

    def action_stack(self) -> None:
        """Show the stack in place of the log, and ask for a new one while the run is live."""
        self.add_class("-stack")
        self.query_one("#stack").focus()
        if self._asks and self.session.state.phase is not RunPhase.ENDED:
            self.session.ask_stacks()
        self.tick()

    def action_back(self) -> None:
        """Leave the cursor of a chart, then its zoom; then go from the stack back to the log, and
        from there to the run."""
        layered_charts = [chart for chart in self.query(Charts) if chart.display and chart.layered]
        if layered_charts:
            layered_charts[0].leave()
        elif self.has_class("-stack"):
            self.remove_class("-stack")
            self.query_one("#facts").focus()
        else:
            self.dismiss()

    def action_chart(self) -> None:
        """Show the next chart."""
        self._first += 1
        self.tick()


def _rank_charts(run: RunState, rank: int) -> list[ChartKind]:
    """The charts that have a curve of the rank, or that have none yet, the most telling ones
    first."""
    chart_kinds = []
    for kind in available(run):
        series = kind.series[0]
        curve_rows = run.curves.rows(series)
        is_of_ranks = SERIES[series].scope is Scope.RANK and not kind.stacked
        if is_of_ranks and (not curve_rows or rank in curve_rows):
            chart_kinds.append(kind)
    return sorted(chart_kinds, key=lambda kind: PLACES.get(kind.id, len(PLACES)))


def _fact_lines(fact: RankFact, width: int) -> Content:
    """A fact behind what it is about; trouble stands out."""
    topic, fact_words = fact
    if topic == TROUBLE:
        fact_head = f"{palette.sign('slow')} "
        style = "bold $text-warning"
    else:
        fact_head = topic.ljust(TOPIC_WIDTH)
        style = "$text"
    indent = " " * len(fact_head)
    if isinstance(fact_words, Content):
        lines = fact_words.wrap(max(width - len(fact_head), 1))
        return Content.assemble((fact_head, "$text-muted"), Content(f"\n{indent}").join(lines))
    room_left = max(width, len(fact_head) + 1)
    fact_text = textwrap.fill(
        plain(fact_words), room_left, initial_indent=indent, subsequent_indent=indent
    )
    return Content.assemble((fact_head, "$text-muted"), (fact_text[len(fact_head) :], style))
