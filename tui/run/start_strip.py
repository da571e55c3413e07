"""What a run waits for before its first step, above its panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from remote.run.findings.start_halt import find_start_halt
from remote.run.findings.start_progress import is_starting, summarise_start
from remote.run.findings.start_waits import waiting
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from tui.kit.background import run_in_background
from tui.kit.bindings import key_of
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.verdict_strip import NextKey, Severity, VerdictStrip
from tui.run.components.advice_text import describe_remedy
from tui.run.components.start_table import find_start_warning
from tui.run.run_verdict import VerdictKeys, find_advised_key

LATE = "longer than usual: "


class StartStrip(VerdictStrip):
    """What the start waits for, what is usual, and which keys help; later, whom all wait for."""

    def __init__(self, find_last_start: Callable[[], Mapping[str, float]] = dict) -> None:
        """`find_last_start` returns what the stages of the start took in the last run like it, by
        their titles, after a while."""
        super().__init__()
        self._find_last_start = find_last_start
        self._last_times: Mapping[str, float] = {}
        self._has_asked = False
        self._clock = SessionClock()
        self.advice: Advice | None = None
        """What helps against what the checks warn of, if it is something that a key does."""

    def show_run(self, run: RunState) -> None:
        """Copy what is drawn from the run."""
        now = self._clock.now(run)
        if is_starting(run):
            self._ask_for_last_start()
            summary = summarise_start(run, now, self._last_times)
            text, reason, is_late = summary.text, summary.usual, summary.is_late
        else:
            text = "; ".join(wait.text() for wait in waiting(run, now))
            reason, is_late = "", True
        # A stall says more, in the strip below.
        if not text or run.stall:
            self.advice = None
            self.show(Severity.NEUTRAL, "")
            return
        # A rank that a signal has stopped is all that is to be said.
        halt = find_start_halt(run)
        is_explained = halt is not None and bool(halt.find_stopped())
        warning = None if is_explained else find_start_warning(run)
        self.advice = warning.advice if warning else None
        # A replay, and a run that nobody records, cannot be asked or stopped.
        keys = [] if run.is_held else self._list_keys(run)
        is_calm = not is_late and warning is None
        severity = Severity.NEUTRAL if is_calm else Severity.WARN
        title, reasons = text, [f"this {reason}"] if reason else []
        if is_late:
            # What is wrong with a host may well be why.
            reasons = [f"{LATE}{line}" for line in reasons] + list(warning.lines if warning else ())
        elif warning:
            # The start goes on as usual.
            progress = f"{text} ({reason})" if reason else text
            title, reasons = warning.title, [*warning.reasons, progress]
        self.show(severity, title, reasons, keys, is_calm=is_calm)

    def _ask_for_last_start(self) -> None:
        if self._has_asked:
            return
        self._has_asked = True

        def take(last_times: Mapping[str, float]) -> None:
            self._last_times = last_times

        # Without it, the strip says what is usual everywhere.
        run_in_background(self, self._find_last_start, take, lambda error: None)

    def _list_keys(self, run: RunState) -> list[NextKey]:
        next_keys = [
            NextKey(key_of(self.app, "checks"), "check the hosts"),
            NextKey(key_of(self.app, "stacks"), "where each rank is"),
        ]
        key_to_stop = key_of(self.app, "quit")
        stop_key = NextKey(key_to_stop, "stop")
        if self.advice is None:
            return [*next_keys, stop_key]
        copy_key = key_of(self.app, "copy-run-command")
        if self.advice.remedy is Remedy.EXCLUDE_HOST:
            copy_text = f"copy the command {describe_remedy(self.advice)}"
            stop_key = NextKey(key_to_stop, "stop this run, then paste it")
            return [NextKey(copy_key, copy_text), stop_key, *next_keys]
        advised_key = find_advised_key(run, self.advice, VerdictKeys(copy=copy_key))
        return [advised_key, *next_keys, stop_key]
