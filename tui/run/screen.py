"""The run screen: every panel over one run, and the keys that move between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize

from remote.plan.plan import with_setting
from remote.record.entry import Entry
from remote.record.watch import WatchedRun
from remote.run.findings.alerts import Alert
from remote.run.findings.find_resume_point import find_resume_point
from remote.run.state.advice import Remedy
from remote.run.state.phases import RunPhase
from remote.sanitise import plain
from tui.charts.panel import Charts
from tui.kit import desktop_notes as desktop
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, find_panel_action, key_of
from tui.kit.dialogs import TextDialog
from tui.kit.messages import (
    CompareRun,
    CopyCommand,
    CopyText,
    GoHome,
    NewRun,
    OtherRun,
    ResumeRun,
    ShowChecks,
    ShowStacks,
)
from tui.kit.panel import Panel
from tui.kit.replay import Replay
from tui.kit.run_session import RunSession
from tui.kit.widgets.keys import STOP, KeyFooter
from tui.run.body import RunBody
from tui.run.chart_actions import ChartActions
from tui.run.components.advice_text import make_command
from tui.run.components.header import RunHeader
from tui.run.components.header_lines import NO_REPLAY, ReplayNote
from tui.run.components.note import RecordNote
from tui.run.components.record_lines import ReplaySlider, describe_end, describe_replay
from tui.run.live_verdict import list_alerts
from tui.run.run_verdict import VerdictKeys
from tui.run.start_strip import StartStrip
from tui.run.verdict_panel import VerdictPanel

NO_OTHER = "no other run is open here: rankboard alone lists all runs, and opens several"

END = "nothing more is recorded, and the run has not ended: the arrow keys of the slider go back"
"""Why a replay does not play at its end."""


class RunScreen(ChartActions):
    """One run. `tick` draws what has changed since the last one. `inside`: over the screen of a
    study, to which one goes back; else one goes home, if there is a home. `called` tells the name
    that a person gave the run, `find_previous` the last run with the same settings,
    `find_last_start` what the stages of the start took in the last run like it."""

    # Not `CSS`, for which all style sheets would be parsed again.
    DEFAULT_CSS = """
    RunScreen .-maximized { height: 1fr; }
    """
    place = KeyPlace.RUN
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    why_not: ClassVar[Mapping[str, str]] = {
        "new-run": "a new run can be set up once this one has ended",
        "resume": "a run of rankboard's own can be resumed once it has ended with a checkpoint",
        "back": "there is nothing to go back to: q quits",
        "compare-with": "a run can be compared once it has made a step",
        **dict.fromkeys(("play", "slower", "faster"), "only a replay plays: this run is live"),
        **dict.fromkeys(("home", "next-run", "previous-run"), NO_OTHER),
    }
    """Why actions that not every run screen has do nothing where they are missing."""

    def __init__(
        self,
        session: RunSession,
        *,
        inside: bool = False,
        home: bool = False,
        called: Callable[[], str] = str,
        find_previous: Callable[[], Entry | None] = lambda: None,
        find_last_start: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        super().__init__()
        self._ask_name = called
        self._called = ""
        self.session = session
        self._home = home
        self._inside = inside
        self._has_ended = False
        self._is_watched = False
        self._header = RunHeader()
        self._start = StartStrip(find_last_start)
        self._verdict = VerdictPanel(find_previous)
        self._body = RunBody(session)
        self._slider = ReplaySlider(session) if isinstance(session, Replay) else None
        self._note = RecordNote(session) if isinstance(session, WatchedRun) else None

    def compose(self) -> ComposeResult:
        if self._note:
            yield self._note
        yield self._header
        yield self._start
        yield self._verdict
        yield self._body
        if self._slider:
            yield self._slider
        yield KeyFooter()

    def on_mount(self) -> None:
        # The log is the last one of `PANELS`.
        log_panel = self._body.panels[-1]
        first_widget = self._slider or log_panel.children[0]
        first_widget.focus()
        self.watch(self, "maximized", self._zoomed, init=False)

    def _zoomed(self) -> None:
        self._body.lay_out()
        self.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        self._body.lay_out()
        self.read_command()
        # Panels have their new sizes only after the next refresh.
        self.call_after_refresh(self.tick)

    def on_screen_resume(self) -> None:
        """Take in the name of the run, the baseline and the notes, which may be others by now."""
        self._called = self._ask_name()
        self.read_marks()

    def on_screen_suspend(self) -> None:
        """Pause a replay that is left; below a dialog it plays on."""
        if self._slider and self not in self.app.screen_stack:
            self._slider.replay.pause()

    def on_cell_table_uncovered(self) -> None:
        self.tick()

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while the panels copy from it."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            if self._slider:
                self._slider.show()
            if self._note:
                self._note.show()
            self._body.show(run)
            replay_note = NO_REPLAY
            if self._slider:
                replay = self._slider.replay
                badge = describe_replay(replay)
                has_step = bool(badge) and not replay.is_playing and run.step > 0
                replay_note = ReplayNote(badge, describe_end(replay), has_step)
            self._body.set_class(bool(replay_note.badge), "-past")
            self._body.set_class(run.stall is not None, "-stale")
            self._start.show_run(run)
            self._warn(self._verdict.show(run, self._verdict_keys(), self._body.notes))
            verdict = self._verdict.verdict
            has_finding = bool(verdict.title) and not verdict.is_past
            self._header.show(
                run,
                self._called,
                replay_note,
                verdict.severity,
                has_finding=has_finding,
                stops_with_terminal=self._stops_with_terminal,
            )
            # A hidden panel costs nothing: it is drawn once it is seen.
            for panel in self._body.panels:
                if self._is_seen(panel):
                    panel.show(run)
            if self.over is not self._has_ended:  # it may also go on after its end
                self._has_ended = self.over
                self._body.lay_out()
                self.refresh_bindings()

    @property
    def _is_led_here(self) -> bool:
        """Return True if what is done here is done to the run, and not only to the view of it."""
        return getattr(self.app, "sends_commands", False)

    @property
    def _stops_with_terminal(self) -> bool:
        """Return True if the run ends once this program is hung up."""
        is_live = self._slider is None and not self.over and not self.session.state.is_held
        return is_live and self._is_led_here and not self.session.keep

    @property
    def names_now(self) -> Mapping[str, str]:
        """Return what keys do now, where that is not their usual name."""
        return {"app.quit": STOP} if self._stops_with_terminal else {}

    def _verdict_keys(self) -> VerdictKeys:
        def find_key(name: str, action: str) -> str:
            return key_of(self.app, name) if self.check_action(action, ()) else ""

        can_stop = not self.over and self._is_led_here
        return VerdictKeys(
            resume=find_key("resume", "resume"),
            new_run=find_key("new-run", "new"),
            compare=find_key("compare-with", "compare"),
            first_error=key_of(self.app, "first-error"),
            copy=key_of(self.app, "copy-run-command"),
            stacks=key_of(self.app, "stacks"),
            hide=key_of(self.app, "hide-alerts"),
            alerts=key_of(self.app, "alerts"),
            stop=key_of(self.app, "quit") if can_stop else "",
        )

    def _warn(self, new_alerts: Sequence[Alert]) -> None:
        """Ring the bell and show a note of the desktop, once for each alert that comes while one
        watches; a note here only where the lines on top are not seen. Not of a replay, whose alerts
        are old."""
        is_above = self.is_active and self.maximized is None
        for alert in new_alerts if self._is_watched else ():
            self.app.bell()
            desktop.show_desktop_note(self.app, alert.text)
            if not is_above:
                self.notify(plain(alert.text), severity="warning", markup=False)
        # The alerts of the first drawing are older than the screen.
        self._is_watched = self._slider is None

    def _is_seen(self, panel: Panel) -> bool:
        return panel.display and self.maximized in (None, panel)

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.session.state.phase is RunPhase.ENDED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow a new run only after this one, and the way back only where there is one."""
        match action:
            case "new":
                return self.over and not self._inside
            # None: shown all the same, so that the keys behind it keep their places.
            case "compare":
                return self.session.state.has_begun or None
            case "resume":
                can_go_on = self.over and find_resume_point(self.session.state) is not None
                return can_go_on and not self._inside
            case "back":
                is_way = self._inside or self._home or self._is_over_another
                return is_way or self._is_layered or None
            case "home" | "other":
                return self._home
            case "play" | "speed":
                return self._slider is not None
        return True

    def _focus(self, panel: Panel) -> None:
        if self.maximized is not None:
            self.minimize()
        panel = self._body.bring(panel)
        if not panel.display:  # on a low screen, it is a page of its own
            self.maximize(panel)
        self.set_focus(panel.children[0])  # at once: the next key may be for it
        self.tick()

    # Keys

    def action_panel(self, number: int) -> None:
        panels = self._body.numbered_panels
        if number <= len(panels):
            self._focus(panels[number - 1])

    async def action_elsewhere(self, name: str) -> None:
        """Go to the first panel that has this action, and do it there."""
        key_place, action = find_panel_action(name)
        place_panels = [panel for panel in self._body.panels if panel.place is key_place]
        if place_panels:
            # True is more than False: a panel in view, or else the first one.
            panel = max(place_panels, key=self._is_seen)
            self._focus(panel)
            await self.app.run_action(action.call, panel)
            self.tick()

    def _layered_panel(self) -> Panel | None:
        """The panel in view with a layer to leave; of several, that with the focus."""
        layered_panels = [
            panel for panel in self._body.panels if self._is_seen(panel) and panel.layered
        ]
        return max(layered_panels, key=lambda panel: panel.has_focus_within, default=None)

    @property
    def _is_layered(self) -> bool:
        return self.maximized is not None or self._layered_panel() is not None

    def on_charts_view_changed(self, message: Charts.ViewChanged) -> None:
        self.refresh_bindings()
        self._body.deck.set_view(message.kind, message.view)
        self.tick()

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        else:
            for panel in self._body.panels:
                if panel.has_focus_within:
                    self.maximize(panel)
        self.tick()

    def action_play(self) -> None:
        """Play the replay, or pause it."""
        if self._slider:
            if not self._slider.replay.toggle():
                self.notify(END, markup=False)
            self.tick()

    def action_speed(self, steps: int) -> None:
        """Play faster, or (below 0) slower."""
        if self._slider:
            self._slider.replay.change_speed(steps)
            self.tick()

    def action_back(self) -> None:
        """Leave one layer: of a chart in view its cursor, then its zoom; a panel that fills the
        screen. Without any, go back to where the user came from, or home."""
        layered_panel = self._layered_panel()
        if layered_panel:
            layered_panel.leave()
        elif self.maximized is not None:
            self.action_zoom()
        elif self._inside or self._is_over_another:
            self.dismiss()
        else:
            self.post_message(GoHome())

    @property
    def _is_over_another(self) -> bool:
        """Return True if the user came from another screen of ours: the first is Textual's own."""
        return len(self.app.screen_stack) > 2

    def action_home(self) -> None:
        self.post_message(GoHome())

    def action_other(self, step: int) -> None:
        """Show another of the opened runs."""
        self.post_message(OtherRun(step))

    def action_acknowledge(self) -> None:
        self._verdict.hide_alerts()
        self.tick()

    def action_alerts(self) -> None:
        with self.session.lock:
            alerts_text = list_alerts(self.session.state, key_of(self.app, "stacks"))
        self.app.push_screen(TextDialog("alerts", alerts_text))

    def action_copy_command(self) -> None:
        """Copy the command that helps, as the verdict says, or else that of the run."""
        advice = self._verdict.verdict.advice or self._start.advice
        with self.session.lock:
            run = self.session.state
            command = make_command(run, advice) if advice else ""
        if command:
            self.post_message(CopyText(command))
        else:
            plan = run.plan
            without = advice.host if advice and advice.remedy is Remedy.EXCLUDE_HOST else ""
            # Once a run has ended, its form takes the better setting.
            name, value = advice.setting if advice and not self.over else ("", None)
            if plan.job and value is not None:
                plan = replace(plan, work=with_setting(plan.job, name, value))
            self.post_message(CopyCommand(plan, run, without))

    def action_compare(self) -> None:
        self.post_message(CompareRun())

    def action_checks(self) -> None:
        self.post_message(ShowChecks())

    def action_stacks(self) -> None:
        self.post_message(ShowStacks())

    def action_new(self) -> None:
        advice = self._verdict.verdict.advice
        self.post_message(NewRun(*advice.setting) if advice else NewRun())

    def action_resume(self) -> None:
        self.post_message(ResumeRun(self.session.plan.run))
