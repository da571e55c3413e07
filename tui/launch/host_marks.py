"""What the checks have found of each host so far, in a few words."""

from __future__ import annotations

from typing import NamedTuple

from remote.doctor.doctor import FAILED, OK, WARNING
from remote.events import Checked
from remote.format import count
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import one_line
from tui.doctor import checks

WORST = (FAILED, WARNING, OK)


class Mark(NamedTuple):
    """The worst that was found of a host: an outcome, "" where nothing is known yet; a text for a
    row, and one that says all, with what to do."""

    outcome: str
    text: str
    whole: str


def marks(state: RunState) -> dict[str, Mark]:
    """The marks of the hosts that are checked, by name."""
    return {host.name: _mark(state, host.index) for host in state.hosts}


def summary(state: RunState) -> str:
    """What the checks have found of all hosts together: "all passed", "1 failed, 2 warnings"."""
    if state.phase is not RunPhase.ENDED:
        return "checking"
    return checks.verdict(state).rpartition(": ")[2]


def _mark(state: RunState, index: int) -> Mark:
    found = [check for (on, _), check in state.checks.items() if on == index]
    over = state.phase is RunPhase.ENDED
    if not found:
        text = "not checked" if over else "checking"
        return Mark("", text, text)
    worst = min(found, key=lambda check: WORST.index(check.outcome))
    passed = count(len(found), "check") + (" passed" if over else " passed so far")
    if worst.outcome == OK:
        return Mark(OK if over else "", passed, passed)
    said = [_said(check) for check in found if check.outcome == worst.outcome]
    more = f" (+{len(said) - 1})" if len(said) > 1 else ""
    return Mark(worst.outcome, f"{worst.check}{more}: {one_line(worst.text)}", "; ".join(said))


def _said(check: Checked) -> str:
    advice = f" ({one_line(check.advice)})" if check.advice else ""
    return f"{check.check}: {one_line(check.text)}{advice}"
