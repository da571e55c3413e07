"""What a run waits for before its first step, above its panels."""

from __future__ import annotations

from remote.run.findings.start_progress import is_starting, summarise_start
from remote.run.findings.start_waits import waiting
from remote.run.run_state import RunState
from tui.kit.bindings import key_of
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.verdict_strip import NextKey, Severity, VerdictStrip

NORMAL = "normal, nothing to do"
LATE = "longer than usual"


class StartStrip(VerdictStrip):
    """What the start waits for, what is usual, and which keys help; later, whom all wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()

    def show_run(self, run: RunState) -> None:
        """Copy what is drawn from the run."""
        now = self._clock.now(run)
        if is_starting(run):
            summary = summarise_start(run, now)
            text, reason, is_late = summary.text, summary.usual, summary.is_late
        else:
            text = "; ".join(wait.text() for wait in waiting(run, now))
            reason, is_late = "", True
        # A stall says more, in the strip below.
        if not text or run.stall:
            self.show(Severity.NEUTRAL, "")
            return
        keys = [
            NextKey(key_of(self.app, "checks"), "check the hosts"),
            NextKey(key_of(self.app, "stacks"), "where each rank is"),
            NextKey(key_of(self.app, "quit"), "stop"),
        ]
        if reason:
            reason = f"{LATE if is_late else NORMAL}: this {reason}"
        # A replay, and a run that nobody records, cannot be asked or stopped.
        self.show(
            Severity.WARN if is_late else Severity.NEUTRAL,
            text,
            (reason,) if reason else (),
            () if run.is_held else keys,
        )
