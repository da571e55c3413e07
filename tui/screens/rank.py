"""The page of a rank: its figures, its process and host, its curves, and its log or its stack."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.run.state import RankState, RunPhase, RunState
from tui import palette
from tui.actions import Place, bindings
from tui.panels.parts.rank_facts import TROUBLE, Fact, facts
from tui.panels.parts.row import state
from tui.panels.parts.stack import stack
from tui.session_clock import SessionClock
from tui.view import Session
from tui.widgets.chart import Chart
from tui.widgets.frame import Look
from tui.widgets.keys import Keys
from tui.widgets.log_view import LogView, plain
from tui.widgets.raster import Curve

CHARTS = {
    "loss": Look("step"),
    "seconds": Look("step", from_zero=True),
    "cpu": Look("time", clock=True, from_zero=True),
}
"""The series that are drawn, by their ids."""
TITLES = {"loss": "loss", "seconds": "s/iteration", "cpu": "CPU of a core"}
WIDTHS = (80, 110, 150)
"""Columns from which on one, two and three charts stand beside each other."""
ABOUT = 10
"""Columns of what a fact is about."""
TALL = 30
"""Rows from which on there is room for all facts."""
INKS = {
    "table--good": "$text-success",
    "table--work": "$text-warning",
    "table--bad": "bold $text-error",
    "table--dim": "$text-muted",
}


class RankScreen(Screen[None]):
    """One rank of a run. `tick` draws what has changed."""

    CSS = """
    RankScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    RankScreen #facts { height: auto; max-height: 12; padding: 0 1; }
    RankScreen #charts { height: 2fr; min-height: 4; }
    RankScreen #charts Chart {
        border-top: solid $primary 40%; border-title-color: $text-muted; width: 1fr; display: none;
    }
    RankScreen #charts Chart.-shown { display: block; }
    RankScreen .below { border-top: solid $primary 40%; border-title-color: $text-muted; }
    RankScreen .below { height: 3fr; min-height: 3; }
    RankScreen .below:focus { border-top: solid $primary; border-title-color: $text; }
    RankScreen VerticalScroll { padding: 0 1; scrollbar-size-vertical: 1; display: none; }
    RankScreen.-stack VerticalScroll { display: block; }
    RankScreen.-stack LogView { display: none; }
    RankScreen.-low #charts { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (18, "-tall")]  # noqa: RUF012
    place = Place.RANK
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: Session, rank: int) -> None:
        super().__init__()
        self.session = session
        self._rank = rank
        self._clock = SessionClock()
        self._first = 0
        self._told = self._stack = Content("")
        self._version = -1

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="facts")
        with Horizontal(id="charts"):
            for look in CHARTS.values():
                yield Chart(look)
        log = LogView()
        log.rank = self._rank
        yield log.add_class("below")
        with VerticalScroll(classes="below"):
            yield Static(id="stack")
        yield Keys()

    def on_mount(self) -> None:
        for chart, series in zip(self.query(Chart), CHARTS, strict=True):
            chart.border_title = f" {TITLES[series]} "
        self.query_one(VerticalScroll).border_title = " stack, newest call first "
        self.query_one(LogView).focus()
        self._choose_charts()
        self.tick()

    def on_resize(self, event: Resize) -> None:
        self._choose_charts()
        self.call_after_refresh(self.tick)

    def _choose_charts(self) -> None:
        """Show as many charts as have room beside each other."""
        charts = list(self.query(Chart))
        many = max(1, sum(self.app.size.width >= width for width in WIDTHS))
        shown = {(self._first + place) % len(charts) for place in range(many)}
        for place, chart in enumerate(charts):
            chart.set_class(place in shown, "-shown")
        self._version = -1

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while this copies from it."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            rank, now = run.ranks[self._rank], self._clock.now(run)
            self._show_facts(rank, run, now)
            self._show_charts(run)
            log = self.query_one(LogView)
            log.show(run.log.lines, run.log.count)
            log.border_title = f" log  {'following' if log.follow else f'{log.unseen} new'} "
            if self.has_class("-stack"):
                self._show_stack(rank, run, now)

    def _show_facts(self, rank: RankState, run: RunState, now: float) -> None:
        others = f"{palette.sign('less')} {palette.sign('more')} other ranks"
        doing = state(rank, run, now)
        who = f"rank {rank.rank} of {len(run.ranks)}, on {plain(run.host_name(rank.host))}"
        title = Content.assemble(who, "  ", (doing.text, INKS.get(doing.ink, "")))
        room = self.app.size.width - 2 - title.cell_length - len(others)
        if room > 1:
            title = Content.assemble(title, " " * room, (others, "$text-muted"))
        width, height = self.app.size
        known = facts(rank, run, now, roomy=height >= TALL)
        lines = [_lines(fact, width - 2) for fact in known]
        told = Content("\n").join([title, *lines])
        if not told.is_same(self._told):
            self._told = told
            self.query_one("#title", Static).update(title)
            self.query_one("#facts", Static).update(Content("\n").join(lines))

    def _show_charts(self, run: RunState) -> None:
        if run.curves.version == self._version:
            return
        self._version = run.curves.version
        for chart, (series, look) in zip(self.query(Chart), CHARTS.items(), strict=True):
            if chart.has_class("-shown"):
                points = run.curves.of(series, self._rank)
                x = points.time if look.clock else points.step
                curve = Curve("", self._rank, x, points.low, points.high, points.mean)
                restarts = run.progress.restarts
                marks = [one.seconds if look.clock else one.step for one in restarts]
                chart.draw([curve] if len(x) else [], marks)

    def _show_stack(self, rank: RankState, run: RunState, now: float) -> None:
        width = self.query_one(VerticalScroll).size.width - 2
        told = Content("\n").join(stack(run, rank, now, width))
        if not told.is_same(self._stack):
            self._stack = told
            self.query_one("#stack", Static).update(told)

    # Keys

    def action_rank(self, step: int) -> None:
        """Go to the next rank, or the one before."""
        self._rank = (self._rank + step) % len(self.session.state.ranks)
        self._version = -1
        self.query_one(LogView).rank = self._rank
        self.tick()

    def action_stack(self) -> None:
        """Show the stack in place of the log, and ask for a new one while the run is live."""
        self.add_class("-stack")
        self.query_one(VerticalScroll).focus()
        if self.session.state.phase is not RunPhase.ENDED:
            self.session.ask_stacks()
        self.tick()

    def action_back(self) -> None:
        """From the stack back to the log; from there back to the run."""
        if self.has_class("-stack"):
            self.remove_class("-stack")
            self.query_one(LogView).focus()
        else:
            self.dismiss()

    def action_chart(self) -> None:
        """Show the next chart."""
        self._first = (self._first + 1) % len(CHARTS)
        self._choose_charts()
        self.call_after_refresh(self.tick)

    def action_follow(self) -> None:
        """Follow the newest line of the log, or stop following."""
        view = self.query_one(LogView)
        view.follow = not view.follow
        self.tick()


def _lines(fact: Fact, width: int) -> Content:
    """A fact behind what it is about; trouble stands out."""
    about, said = fact
    if about == TROUBLE:
        head, style = f"{palette.sign('slow')} ", "bold $text-warning"
    else:
        head, style = about.ljust(ABOUT), "$text"
    room = max(1, width - len(head))
    first, *more = textwrap.wrap(plain(said), room) or [""]
    below = "".join(f"\n{' ' * len(head)}{line}" for line in more)
    return Content.assemble((head, "$text-muted"), (first + below, style))
