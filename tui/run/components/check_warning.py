"""What a check before the start warns of, and what helps. Pure."""

from __future__ import annotations

from typing import NamedTuple

from remote.doctor.host_facts import NAMED, WARNING
from remote.doctor.wording import LOAD, is_told, whose
from remote.events import CheckFinished
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy


class CheckWarning(NamedTuple):
    """What a check warns of, in lines; the first one is the title."""

    check: CheckFinished
    lines: tuple[str, ...]
    advice: Advice | None = None
    """What helps, if it is something that a key does."""

    @property
    def title(self) -> str:
        return self.lines[0]

    @property
    def reasons(self) -> tuple[str, ...]:
        return self.lines[1:]


def list_warnings(run: RunState) -> list[CheckFinished]:
    """Return what the checks warn of; of several equal findings the one that tells of all."""
    return [check for check in run.checks.values() if check.outcome == WARNING and is_told(check)]


def read_warning(run: RunState, check: CheckFinished) -> CheckWarning:
    """Put a warning into lines, and find what helps."""
    host_names = [host.name for host in run.hosts]
    # Of a single host, all that is said is of that host.
    subject = whose(host_names, check, NAMED) if len(host_names) > 1 else ""
    text = f"{subject}{check.text}"
    is_of_one = 0 <= check.host < len(host_names) > 1 and len(check.same) <= 1
    if is_of_one and check.helps_to_exclude:
        return CheckWarning(check, (text,), Advice(Remedy.EXCLUDE_HOST, host_names[check.host]))
    # A command stands beside its key.
    lines = (text,) if check.command or not check.advice else (text, check.advice)
    return CheckWarning(check, lines, _find_advice(check, host_names))


def _find_advice(check: CheckFinished, host_names: list[str]) -> Advice | None:
    if check.command:
        return Advice(Remedy.RUN_COMMAND, command=check.command)
    if check.check == LOAD and 0 <= check.host < len(host_names):
        return Advice(Remedy.END_PROGRAMS, host_names[check.host])
    return None
