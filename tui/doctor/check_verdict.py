"""What the checks of hosts come to, as a verdict: the worst finding, and what helps."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from typing import NamedTuple

from remote.doctor.doctor import FAILED, OK, WARNING
from remote.events import CheckFinished
from remote.format import count
from remote.run.run_state import RunState
from remote.sanitise import one_line
from tui.doctor import checks

SLOWING = ("memory", "load")
"""The checks whose warnings are mended by a run without the host; others say so themselves."""


class CheckVerdict(NamedTuple):
    """What the checks come to."""

    outcome: str
    """OK, WARNING or FAILED of `remote.doctor`."""
    title: str
    """The worst finding, or how many checks have passed."""
    advice: str = ""
    """What to do about it."""
    others: int = 0
    """How many more findings there are."""
    weak_hosts: tuple[str, ...] = ()
    """The hosts without which the worst finding would be gone; none where that does not help."""
    command: str = ""
    """The command that helps against the worst finding, if there is one."""

    @property
    def needed_advice(self) -> str:
        """Return the advice; "" where it is to leave the host out, which a key does."""
        is_left_out = self.outcome == WARNING and self.weak_hosts
        return "" if is_left_out else self.advice


def judge_checks(state: RunState, hosts: Container[str] | None = None) -> CheckVerdict | None:
    """Return the verdict on the checks so far; None if nothing is known yet.

    `hosts` are the names of those that still take part, if some were left out since.
    """
    problems = [check for check in checks.list_problems(state) if _concerns(state, check, hosts)]
    if problems:
        return _judge_problems(state, problems)
    if not state.checks or not checks.have_ended(state):
        return None
    return CheckVerdict(OK, describe_passed(state))


def exclude_hosts(words: Sequence[str], hosts: Sequence[str]) -> str:
    """Return a command line of `rankboard doctor` without some hosts; "" if it leaves some out
    itself. `words` are its words behind `rankboard`."""
    if words[:1] != ["doctor"] or any(word.startswith("--exclude") for word in words):
        return ""
    return shlex.join(["rankboard", "doctor", "--exclude", ",".join(hosts), *words[1:]])


def describe_passed(state: RunState) -> str:
    """Say how many checks have passed: "64 checks on 4 hosts passed"."""
    passed = sum(check.outcome == OK for check in state.checks.values())
    return f"{count(passed, 'check')} on {count(len(state.hosts), 'host')} passed"


def describe_finding(state: RunState, check: CheckFinished) -> str:
    """Return a finding in a line: "node3: 0.1 cores, most others 0.4: …"."""
    return checks.name_hosts(state, check) + one_line(check.text)


def _judge_problems(state: RunState, problems: list[CheckFinished]) -> CheckVerdict:
    worst = problems[0]
    return CheckVerdict(
        worst.outcome,
        describe_finding(state, worst),
        one_line(worst.advice),
        len(problems) - 1,
        _find_weak_hosts(state, worst, problems),
        one_line(worst.command),
    )


def _concerns(state: RunState, check: CheckFinished, hosts: Container[str] | None) -> bool:
    """Return True if a finding is about a host that takes part, or about all together."""
    names = _list_names(state, check)
    return hosts is None or not names or any(name in hosts for name in names)


def _list_names(state: RunState, check: CheckFinished) -> list[str]:
    """Return the names of the hosts of a finding; none if it is about all of them together."""
    indices = check.same or (check.host,)
    return [host.name for host in state.hosts if host.index in indices]


def _find_weak_hosts(
    state: RunState, check: CheckFinished, problems: Sequence[CheckFinished]
) -> tuple[str, ...]:
    """Return the hosts to leave out, if that helps and others are left: all for which the check has
    ended like this, also with other words."""
    helps = check.outcome == FAILED or check.check in SLOWING or check.helps_to_exclude
    if not helps or not checks.is_of_some(state, check):
        return ()
    alike = [
        other for other in problems if (other.check, other.outcome) == (check.check, check.outcome)
    ]
    weak_hosts = dict.fromkeys(name for other in alike for name in _list_names(state, other))
    return tuple(weak_hosts) if len(weak_hosts) < len(state.hosts) else ()
