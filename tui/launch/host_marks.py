"""The worst that the checks have found of each host so far, in a few words."""

from __future__ import annotations

from dataclasses import dataclass

from remote.doctor.host_facts import FAILED, OK, WARNING
from remote.events import CheckFinished
from remote.format import count
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import one_line
from tui.doctor import checks

WORST_FIRST = (FAILED, WARNING, OK)


@dataclass(frozen=True)
class HostMark:
    """The worst that was found of a host."""

    outcome: str
    """An outcome of `remote.doctor`; "" if none is known yet."""
    text: str
    """A few words for a row."""
    details: str
    """All of it, with what to do."""


def mark_hosts(state: RunState) -> dict[str, HostMark]:
    """Return the marks of the hosts that are checked, by name."""
    return {host.name: _mark_host(state, host.index) for host in state.hosts}


def summarise(state: RunState) -> str:
    """Return what was found of all hosts together: "all passed", "1 failed, 2 warnings"."""
    if state.phase is not RunPhase.ENDED:
        return "checking"
    return checks.count_outcomes(state) if state.checks else checks.summarise(state)


def _mark_host(state: RunState, index: int) -> HostMark:
    found = [check for (host, _), check in state.checks.items() if host == index]
    has_ended = state.phase is RunPhase.ENDED
    if not found:
        text = "not checked" if has_ended else "checking"
        return HostMark("", text, text)
    outcomes = {check.outcome for check in found}
    outcome = min(outcomes, key=WORST_FIRST.index)
    if outcome == OK:
        text = f"{count(len(found), 'check')} passed"
        if has_ended:
            return HostMark(OK, text, text)
        return HostMark("", f"{text} so far", f"{text} so far")
    worst = [check for check in found if check.outcome == outcome]
    details = "; ".join(map(_describe, worst))
    more = f" (+{len(worst) - 1})" if len(worst) > 1 else ""
    text = one_line(worst[0].value or worst[0].text)
    return HostMark(outcome, f"{worst[0].check}{more}: {text}", details)


def _describe(check: CheckFinished) -> str:
    text = f"{check.check}: {one_line(check.text)}"
    return f"{text} ({one_line(check.advice)})" if check.advice else text
