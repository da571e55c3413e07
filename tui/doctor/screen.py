"""The checks of hosts, over the launch form or a run: the problems and remedies, then the table."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.doctor.doctor import FAILED, OK, WARNING
from remote.format import count
from remote.run.findings.start_waits import REACHING, Wait, waiting
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from tui.doctor import checks
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.run_session import HostChecks, LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.keys import KeyFooter

STYLES = {
    OK: "$text-success",
    WARNING: "$text-warning",
    FAILED: "bold $text-error",
    checks.COMMAND: "$primary",
}


class DoctorScreen(LiveScreen, Screen[None]):
    """The results of checks. With `check_again`, which repeats them, they are not part of a run."""

    CSS = """
    DoctorScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    DoctorScreen VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    DoctorScreen #verdict { height: auto; max-height: 3; padding: 0 1; }
    """
    place = KeyPlace.CHECKS
    BINDINGS = bindings(place)

    def __init__(
        self, session: HostChecks, check_again: Callable[[], HostChecks] | None = None
    ) -> None:
        super().__init__()
        self._session = session
        self._check_again = check_again
        self._clock = SessionClock()
        self._shown_findings: tuple[object, ...] = ()
        self._shown_verdict = ""

    def compose(self) -> ComposeResult:
        hosts = self._session.plan.hosts
        yield Static(f"rankboard: checks of {count(len(hosts), 'host')}", id="title")
        with VerticalScroll():
            yield Static(id="found", markup=False)
        yield Static(id="verdict", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed of the results so far."""
        width = self.query_one(VerticalScroll).size.width - 2
        content = None
        with self._session.lock:
            state = self._session.state
            findings = (width, *checks.take_findings(state))
            if findings != self._shown_findings:
                self._shown_findings = findings
                content = _draw_findings(state, width)
            verdict = self._describe_state(state)
        if content is not None:
            self.query_one("#found", Static).update(content)
        if verdict != self._shown_verdict:
            self._shown_verdict = verdict
            self.query_one("#verdict", Static).update(verdict)
            self.refresh_bindings()

    def _describe_state(self, state: RunState) -> str:
        """Sum up the checks, or say what they wait for."""
        if state.checks and (self.is_over or self._check_again is None):
            return checks.summarise(state)
        if any(rank.pid for rank in state.ranks):
            return "no checks: the run was attached to, or started with --no-doctor"
        if self.is_over:
            return f"{checks.summarise(state)}: {state.stop_reason or 'see the log'}"
        if not any(host.phase in REACHING for host in state.hosts):
            return "checking: the hosts connect to each other"
        waits = waiting(state, self._clock.now(state))
        return "; ".join(map(Wait.text, waits)) or "checking: connecting to all hosts"

    @property
    def is_over(self) -> bool:
        """Return True if the checks have ended."""
        return self._session.state.phase is RunPhase.ENDED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow to repeat the checks only after their end."""
        return action != "again" or (self._check_again is not None and self.is_over)

    def action_again(self) -> None:
        if self._check_again:
            self._session = self._check_again()
            self._clock = SessionClock()
            self.tick()

    def action_back(self) -> None:
        self.dismiss()


def _draw_findings(state: RunState, width: int) -> Content:
    """Draw one problem after the other, then the table, whose end may be out of view."""
    lines = []
    for check in checks.list_problems(state):
        cells = checks.describe_problem(state, check, width)
        lines += [_draw_line([cell]) for cell in cells]
    if lines:
        lines.append(Content())
    if state.checks:
        lines += map(_draw_line, checks.make_table(state, width))
    return Content("\n").join(lines)


def _draw_line(cells: list[checks.Cell]) -> Content:
    parts = [Content.styled(text, STYLES.get(outcome, "")) for outcome, text in cells]
    return Content("").join(parts)
