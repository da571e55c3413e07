"""What the checks before a run have found, as plain text: the table of hosts and checks, then what
is amiss and what to do.

The words of hosts are made fit to be shown. A sign stands before each outcome, in ASCII if the
terminal has no UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from remote.doctor.doctor import CHECKS, FAILED, OK, UNFIT, WARNING, is_told, whose
from remote.events import CheckFinished
from remote.format import count
from remote.run.run_state import RunState
from remote.run.state.phases import HostPhase, Verdict
from remote.sanitise import one_line
from tui.kit import palette

GAP_WIDTH = 2
SIGNS = {OK: "good", WARNING: "warn", FAILED: "bad"}
"""The sign (see `palette`) of each outcome. A check that was not made has the sign "rest"."""
MAX_FINDING_LENGTH = 16
"""The longest finding, in characters, that the table shows; otherwise it shows only the outcome."""
Cell = tuple[str, str]
"""A cell's outcome ("" for none) and its text, sign first."""


def list_check_names(state: RunState) -> list[str]:
    """Return the names of the checks in order."""
    made = {check for _, check in state.checks}
    return [name for name in CHECKS if name in made] + sorted(made.difference(CHECKS))


def make_cell(state: RunState, host: int, name: str) -> Cell:
    """Return the cell of a check on a host: a short finding that is ok, otherwise the outcome."""
    check = state.checks.get((host, name))
    if check is None:
        return "", palette.sign("rest")
    word = check.outcome
    text = one_line(check.text)
    if check.outcome == OK and len(text) <= MAX_FINDING_LENGTH:
        word = text
    return check.outcome, f"{_get_sign(check)} {word}"


def _get_sign(check: CheckFinished) -> str:
    # Hosts say the outcome, so it may be any word.
    return palette.sign(SIGNS.get(check.outcome, "rest"))


def make_table(state: RunState, width: int) -> list[list[Cell]]:
    """Return the lines of the table, each as padded cells: a row per check and a column per host.

    It comes in parts that fit the width, with an empty line at the end of each.
    """
    names = list_check_names(state)
    head = _pad_column([("", ""), *(("", name) for name in names)])
    lines: list[list[Cell]] = []
    part = [head]
    part_width = head_width = len(head[0][1])
    for host in state.hosts:
        cells = [make_cell(state, host.index, name) for name in names]
        column = _pad_column([("", host.name), *cells])
        column_width = len(column[0][1]) + GAP_WIDTH
        # A column that is too wide stands alone rather than nowhere.
        if len(part) > 1 and part_width + column_width > width:
            lines += _to_lines(part)
            part = [head]
            part_width = head_width
        part.append(column)
        part_width += column_width
    return lines + _to_lines(part)


def _to_lines(columns: Sequence[list[Cell]]) -> list[list[Cell]]:
    return [*map(list, zip(*columns, strict=True)), []]


def _pad_column(cells: Sequence[Cell]) -> list[Cell]:
    width = max(len(text) for _, text in cells)
    return [(outcome, text.ljust(width)) for outcome, text in cells]


def take_findings(state: RunState) -> tuple[object, ...]:
    """Return what the checks have found so far: equal as long as nothing is new."""
    return state.phase, *state.checks.values()


def _sort_checks(state: RunState) -> list[CheckFinished]:
    """Return all checks by host, then in order."""
    names = list_check_names(state)
    checks = state.checks.values()
    return sorted(checks, key=lambda check: (check.host, names.index(check.check)))


def list_problems(state: RunState) -> list[CheckFinished]:
    """Return failures, then warnings, by host and check; the same of several hosts once."""
    told = [check for check in _sort_checks(state) if is_told(check)]
    failures = [check for check in told if check.outcome == FAILED]
    return failures + [check for check in told if check.outcome == WARNING]


def describe_problem(state: RunState, check: CheckFinished) -> list[str]:
    """Describe a failure or warning: what it is, and what to do about it."""
    hosts = whose([host.name for host in state.hosts], check)
    lines = [f"{_get_sign(check)} {hosts}{check.check} {check.outcome}: {one_line(check.text)}"]
    if check.advice:
        lines.append(f"    {one_line(check.advice)}")
    return lines


def summarise(state: RunState) -> str:
    """Sum up the checks: "16 checks on 4 hosts: all passed"."""
    if not state.checks:
        return "no checks"
    checks = count(len(state.checks), "check")
    hosts = count(len(state.hosts), "host")
    return f"{checks} on {hosts}: {count_outcomes(state)}"


def count_outcomes(state: RunState) -> str:
    """Count what is amiss: "1 failed, 2 warnings"; else "all passed"."""
    outcomes = [check.outcome for check in state.checks.values()]
    failures = outcomes.count(FAILED)
    warnings = outcomes.count(WARNING)
    counts = [f"{failures} {FAILED}"] if failures else []
    if warnings:
        counts.append(count(warnings, WARNING))
    return ", ".join(counts) or "all passed"


def get_exit_code(state: RunState) -> int:
    """Return the exit code: 0 passed, 2 a check failed, 3 a host was not reached or lost, 130
    stopped."""
    if state.stop_reason:
        return Verdict.STOPPED.value
    failed = [key for key, check in state.checks.items() if check.outcome == FAILED]
    # A host that cannot run the agent fails a check, although it never said hello.
    unfit_hosts = {host for host, name in failed if name in UNFIT}
    for host in state.hosts:
        is_away = host.hello is None or host.phase is HostPhase.LOST
        if is_away and host.index not in unfit_hosts:
            return Verdict.LOST.value
    return Verdict.REFUSED.value if failed else 0


def to_objects(state: RunState) -> Iterator[dict[str, Any]]:
    """Yield a JSON-ready object per check; `host` is None for a check of all hosts together."""
    for check in _sort_checks(state):
        yield {
            "host": state.host_name(check.host) or None,
            "check": check.check,
            "outcome": check.outcome,
            "text": one_line(check.text),
            "advice": one_line(check.advice),
        }
