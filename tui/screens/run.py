"""The run screen: every panel over one run, and the keys that move between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen

from remote.run.alerts import Alert, alerts
from remote.run.state import RunPhase, RunState, Verdict
from tui.actions import Place, bindings, panel_action
from tui.charts.deck import Deck
from tui.charts.kinds import available
from tui.messages import CompareRun, GoHome, NewRun, OtherRun, ShowChecks, ShowStacks
from tui.panels import PANELS
from tui.panels.charts import Charts
from tui.panels.hosts import Hosts
from tui.panels.parts import desktop
from tui.panels.parts.alerts import Alerts, in_full
from tui.panels.parts.header import Header
from tui.panels.parts.outcome import Outcome
from tui.panels.parts.panel import Panel, ScreenRow
from tui.panels.parts.slider import Slider
from tui.replay import Replay
from tui.screens.dialogs import TextDialog
from tui.view import Drawn, Session
from tui.widgets.keys import Keys
from tui.widgets.log_view import plain

WIDTHS = (110, 150)
"""Columns from which on there are two charts beside each other, and three."""
BESIDE = 120
"""Columns from which on the hosts stand beside the ranks; else they take the place of the charts,
while the run starts and if one goes there."""
GRID = 12
"""Columns of the grid that panels stand in."""
FLAT = 20
"""Rows below which charts and hosts are hidden."""
LOW = 13
"""Rows below which the log is hidden, too."""


class RunScreen(Drawn, Screen[None]):
    """One run. `tick` draws what has changed since the last one. `inside`: over the screen of a
    study, to which one goes back; else one goes home, if there is a home."""

    CSS = """
    RunScreen #body { layout: grid; grid-size: 12; height: 1fr; }
    RunScreen .-maximized { height: 1fr; }
    """
    place = Place.RUN
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: Session, *, inside: bool = False, home: bool = False) -> None:
        super().__init__()
        self.session = session
        self._home = home
        self._inside = inside
        self._kinds = [kind for kind in PANELS if kind.suits(session.plan)]
        self._deck = Deck(session.plan, Charts.copies)
        self._first = 0  # the first chart that is shown
        self._at_hosts: bool | None = None  # as the user has chosen
        self._ended = self._watched = False
        self._had_hosts = self._was_beside = False

    def compose(self) -> ComposeResult:
        yield Header()
        yield Alerts()
        yield Outcome()
        with Container(id="body"):
            number = 0
            for kind in self._kinds:
                for _ in range(kind.copies):
                    panel = kind()
                    number += 1
                    panel.number = number
                    yield panel
        if isinstance(self.session, Replay):
            yield Slider(self.session)
        yield Keys()

    def on_mount(self) -> None:
        self._arrange()
        if isinstance(self.session, Replay):
            self.query_one(Slider).focus()
        else:
            self.query(Panel).last().query("*").first().focus()
        self.watch(self, "maximized", self._zoomed, init=False)

    def on_unmount(self) -> None:
        self._deck.save()

    def _zoomed(self) -> None:
        self._arrange()
        self.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        self._arrange()
        self.call_after_refresh(self.tick)

    def on_table_uncovered(self) -> None:
        self.tick()

    # The places of the panels

    @property
    def _charts(self) -> list[Charts]:
        return list(self.query(Charts))

    @property
    def _is_beside(self) -> bool:
        """Whether the hosts stand beside the ranks."""
        is_told = len(self.session.plan.hosts) > 1 or not self._is_under_way
        return self.size.width >= BESIDE and is_told

    @property
    def _is_under_way(self) -> bool:
        return self.session.state.phase is not RunPhase.STARTING

    @property
    def _shows_hosts(self) -> bool:
        """Whether the hosts take the place of the charts."""
        chosen = not self._is_under_way if self._at_hosts is None else self._at_hosts
        return chosen and not self._is_beside

    def _seen_charts(self) -> list[int]:
        """The charts for which there is room, by their places."""
        count = 1 + sum(self.size.width >= width for width in WIDTHS)
        return sorted((self._first + place) % Charts.copies for place in range(count))

    def _arrange(self) -> None:
        """Give each panel its place, and the ranks the rows that they need, beside other rows at
        most five twelfths of the screen: eight ranks on 24 lines."""
        height = self.app.size.height
        seen = self._seen_charts() if height >= FLAT and not self._shows_hosts else []
        for place, chart in enumerate(self._charts):
            self._place(chart, GRID // len(seen) if place in seen else 0)
        for panel in self.query(Panel):
            if isinstance(panel, Hosts):
                beside = GRID // 3 if self._is_beside else 0
                self._place(panel, GRID if self._shows_hosts and height >= FLAT else beside)
            elif panel.row is ScreenRow.TOP:
                self._place(panel, GRID * 2 // 3 if self._is_beside else GRID)
            elif panel.row is ScreenRow.BOTTOM:
                self._place(panel, GRID if height >= LOW else 0)
        needed = max(kind.lines(self.session.plan) for kind in self._kinds)
        top = min(needed, max(4, height * 5 // 12))
        rows = ["1fr" if height < LOW else str(top)]
        if height >= FLAT:
            rows.append("3fr")
        if height >= LOW:
            rows.append("1fr" if self.is_finished else "2fr")
        self.query_one("#body").styles.grid_rows = " ".join(rows)

    @staticmethod
    def _place(panel: Panel, span: int) -> None:
        panel.display = span > 0
        panel.styles.column_span = max(span, 1)

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while the panels copy from it."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            for slider in self.query(Slider):
                slider.show()
            self._choose_charts(run)
            self.query_one(Header).show(run)
            self._warn(self.query_one(Alerts).show(run))
            self.query_one(Outcome).show(run)
            for panel in self.query(Panel):
                if self._is_seen(panel):
                    panel.show(run)
            if self.over and not self._ended:
                self._ended = True
                self._arrange()
                self.refresh_bindings()

    def _warn(self, new: Sequence[Alert]) -> None:
        """Ring the bell and show a note, also of the desktop, once for each alert that comes while
        one watches."""
        for alert in new if self._watched else ():
            self.app.bell()
            desktop.note(self.app, alert.text)
            self.notify(plain(alert.text), severity="warning", markup=False)
        self._watched = True

    def _choose_charts(self, run: RunState) -> None:
        """Put the charts of the deck at their places, and the hosts away once the run trains."""
        if self._shows_hosts != self._had_hosts or self._is_beside != self._was_beside:
            self._had_hosts, self._was_beside = self._shows_hosts, self._is_beside
            self._arrange()
        if not any(chart.needs_kind(self._deck.shown[at]) for at, chart in enumerate(self._charts)):
            return
        kinds = available(run)
        for place, chart in enumerate(self._charts):
            kind = self._deck.at(place, kinds)
            if chart.kind != kind or not chart.is_chosen:
                chart.choose(kind, self._deck.view(kind))

    def _is_seen(self, panel: Panel) -> bool:
        return panel.display and self.maximized in (None, panel)

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended well, so that its charts matter more than its log."""
        return self.session.state.verdict is Verdict.FINISHED

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.session.state.phase is RunPhase.ENDED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow a new run only after this one, and the way back only where there is one."""
        is_replay = isinstance(self.session, Replay)
        allowed = {
            "new": self.over and not self._inside,
            "compare": self.session.state.has_begun,
            "back": self._inside or self._home or self.maximized is not None,
            **dict.fromkeys(("home", "other"), self._home),
            **dict.fromkeys(("play", "speed"), is_replay),
        }
        return allowed.get(action, True)

    def _focus(self, panel: Panel) -> None:
        if self.maximized is not None:
            self.minimize()
        if isinstance(panel, Hosts):
            self._at_hosts = True
        elif isinstance(panel, Charts):
            self._at_hosts = False
            if (place := self._charts.index(panel)) not in self._seen_charts():
                self._first = place
        self._arrange()
        self.set_focus(panel.children[0])  # at once: the next key may be for it
        self.tick()

    # Keys

    def action_panel(self, number: int) -> None:
        for panel in self.query(Panel):
            if panel.number == number:
                self._focus(panel)

    async def action_elsewhere(self, name: str) -> None:
        """Go to the first panel that has this action, and do it there."""
        place, action = panel_action(name)
        panel = next((panel for panel in self._in_order() if panel.place is place), None)
        if panel is not None:
            self._focus(panel)
            await self.app.run_action(action.call, panel)
            self.tick()

    def _in_order(self) -> list[Panel]:
        """All panels, those first that are on the screen."""
        return sorted(self.query(Panel), key=lambda panel: not self._is_seen(panel))

    def action_cycle(self) -> None:
        """Show the next chart in place of the focused one, or the first; after the last one the
        hosts, where they have no place of their own."""
        charts, seen = self._charts, self._seen_charts()
        place = next((at for at in seen if charts[at].has_focus_within), seen[0])
        if self._shows_hosts:
            self._focus(charts[place])
            return
        with self.session.lock:
            kinds = available(self.session.state)
        kind = self._deck.following(place, kinds, seen)
        first = self._deck.first(place, kinds, seen)
        self._deck.put(place, kind or first)
        for at, chart in enumerate(charts):
            chart.choose(found := self._deck.at(at, kinds), self._deck.view(found))
        hosts = [panel for panel in self.query(Panel) if isinstance(panel, Hosts)]
        self._focus(hosts[0] if hosts and not kind and not self._is_beside else charts[place])

    def on_view_changed(self) -> None:
        for chart in self._charts:
            self._deck.see(chart.kind, chart.view)
        self.tick()

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            panel = next((node for node in self.focused.ancestors if isinstance(node, Panel)), None)
            if panel is not None:
                self.maximize(panel)
        self.tick()

    def action_play(self) -> None:
        """Play the replay, or pause it."""
        if isinstance(self.session, Replay):
            self.session.toggle()
            self.tick()

    def action_speed(self, steps: int) -> None:
        """Play faster, or (below 0) slower."""
        if isinstance(self.session, Replay):
            self.session.change_speed(steps)
            self.tick()

    def action_back(self) -> None:
        """Leave the zoom; without one, go back to the study, or home."""
        if self.maximized is not None:
            self.action_zoom()
        elif self._inside:
            self.dismiss()
        else:
            self.post_message(GoHome())

    def action_home(self) -> None:
        self.post_message(GoHome())

    def action_other(self, step: int) -> None:
        """Show another of the opened runs."""
        self.post_message(OtherRun(step))

    def action_acknowledge(self) -> None:
        self.query_one(Alerts).acknowledge()
        self.tick()

    def action_alerts(self) -> None:
        with self.session.lock:
            found = [in_full(alert) for alert in alerts(self.session.state)]
        self.app.push_screen(TextDialog("alerts", "\n".join(found) or "There are none."))

    def action_compare(self) -> None:
        self.post_message(CompareRun())

    def action_checks(self) -> None:
        self.post_message(ShowChecks())

    def action_stacks(self) -> None:
        self.post_message(ShowStacks())

    def action_new(self) -> None:
        self.post_message(NewRun())
