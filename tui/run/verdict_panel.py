"""The strip below the header: what is wrong with a run, or how it has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from remote.record.entry import Entry
from remote.record.step_notes import StepNote
from remote.run.findings.alerts import Alert, Key
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from tui.kit.background import run_in_background
from tui.kit.draw_turn import DrawTurn
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.verdict_strip import VerdictStrip
from tui.run.end_verdict import judge_ended_run
from tui.run.learning_verdict import judge_learning
from tui.run.live_verdict import find_load_notice, judge_live_run, list_open_alerts
from tui.run.run_verdict import RunVerdict, VerdictKeys

LOW_SCREEN = 30
"""Lines of a screen below which a success is told briefly: the charts need the room."""


class VerdictPanel(VerticalScroll):
    """The verdict on a run; hidden as long as there is nothing to say."""

    DEFAULT_CSS = """
    VerdictPanel { height: auto; max-height: 40%; scrollbar-size-vertical: 1; }
    """

    def __init__(self, find_previous: Callable[[], Entry | None] = lambda: None) -> None:
        """`find_previous` returns the last run with the same settings, after a while."""
        super().__init__()
        self.verdict = RunVerdict()
        # Made here: the run may be drawn before the panel is composed.
        self._strip = VerdictStrip()
        self._find_previous = find_previous
        self._previous: Entry | None = None
        self._has_asked = False
        self._clock = SessionClock()
        self._turn = DrawTurn()
        self._known: set[Key] = set()
        self._hidden: set[Key] = set()
        self._hidden_titles: set[str] = set()
        """Those that the user has hidden and that belong to no alert."""
        self._learning = RunVerdict()
        self._open: list[Alert] = []

    def compose(self) -> ComposeResult:
        yield self._strip

    def _ask_for_previous(self) -> None:
        self._has_asked = True

        def take(previous: Entry | None) -> None:
            self._previous = previous

        # Without it, a line is missing.
        run_in_background(self, self._find_previous, take, lambda error: None)

    def show(self, run: RunState, keys: VerdictKeys, notes: Sequence[StepNote] = ()) -> list[Alert]:
        """Copy what is drawn from the run. Return the alerts that are new."""
        self._open = list_open_alerts(run, self._hidden)
        # An alert that is over before anybody saw it is listed, but rings no bell.
        new_alerts = [alert for alert in self._open if not alert.over]
        new_alerts = [alert for alert in new_alerts if alert.key not in self._known]
        self._known.update(alert.key for alert in self._open)
        is_turn = self._turn.has_come_for(run, place=1)
        if run.verdict is None:
            if is_turn:
                self._learning = judge_learning(run, keys)
            self._take(self._judge_live(run, keys))
        # What the ranks of a run that has ended came to is looked at in turns.
        elif is_turn:
            self._take(self._judge_end(run, keys, notes))
        return new_alerts

    def _judge_live(self, run: RunState, keys: VerdictKeys) -> RunVerdict:
        notice = find_load_notice(run)
        if notice and notice.title in self._hidden_titles:
            notice = None
        verdict = judge_live_run(run, self._open, keys, self._clock.now(run), notice)
        has_learning = self._learning.title and self._learning.title not in self._hidden_titles
        if has_learning and (verdict.is_past or not verdict.title):
            return self._learning
        return verdict

    def _judge_end(self, run: RunState, keys: VerdictKeys, notes: Sequence[StepNote]) -> RunVerdict:
        if not self._has_asked:
            self._ask_for_previous()
        is_brief = self.app.size.height < LOW_SCREEN
        previous = self._previous if run.verdict is Verdict.FINISHED else None
        return judge_ended_run(run, keys, previous, notes, is_brief=is_brief)

    def _take(self, verdict: RunVerdict) -> None:
        self.verdict = verdict
        self.display = bool(verdict.title)
        self._strip.show(*verdict[:4], is_calm=verdict.is_past)

    def hide_alerts(self) -> None:
        """Show the present alerts no longer, or without any what else the strip says."""
        if not self._open:
            self._hidden_titles.add(self.verdict.title)
        self._hidden.update(alert.key for alert in self._open)
