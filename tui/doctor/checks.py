"""What the checks before a run have found, as plain text: the table of hosts and checks, then what
is amiss and what to do.

Takes the words of hosts fit to be shown; a glyph stands before each outcome's word, in ASCII where
the terminal has no UTF-8.
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

GLYPHS = {OK: "good", WARNING: "warn", FAILED: "bad", "": "rest"}
"""The sign (see `palette`) of each outcome; "" is a check that was not made."""
LONGEST = 16
"""The longest finding, in characters, that the table shows; otherwise it shows only the outcome."""
AMISS = (FAILED, WARNING)
Cell = tuple[str, str]
"""A cell's outcome ("" for none) and its text, glyph first."""


def names(state: RunState) -> list[str]:
    """Name the checks in order."""
    made = {check for _, check in state.checks}
    return [name for name in CHECKS if name in made] + sorted(made.difference(CHECKS))


def cell(state: RunState, host: int, name: str) -> Cell:
    """Make the cell of a check on a host: a short finding that is ok, otherwise the outcome."""
    check = state.checks.get((host, name))
    if check is None:
        return "", palette.sign("rest")
    word = check.outcome
    text = one_line(check.text)
    if check.outcome == OK and len(text) <= LONGEST:
        word = text
    sign = palette.sign(GLYPHS.get(check.outcome, "rest"))
    return check.outcome, f"{sign} {word}"


def table(state: RunState, width: int) -> list[list[Cell]]:
    """Make the lines of the table, each as padded cells: a row per check and a column per host.

    It comes in parts that fit the width, with an empty line at the end of each.
    """
    checks = names(state)
    head = _pad_column([("", ""), *(("", name) for name in checks)])
    parts = [[head]]
    for host in state.hosts:
        cells = [cell(state, host.index, name) for name in checks]
        column = _pad_column([("", host.name), *cells])
        part = [*parts[-1], column]
        part_width = sum(len(column[0][1]) + 2 for column in part) - 2
        if len(part) > 2 and part_width > width:
            parts.append([head, column])
        else:
            parts[-1] = part
    lines: list[list[Cell]] = []
    for part in parts:
        lines += [list(row) for row in zip(*part, strict=True)]
        lines.append([])
    return lines


def _pad_column(cells: Sequence[Cell]) -> list[Cell]:
    width = max(len(text) for _, text in cells)
    return [(outcome, text.ljust(width)) for outcome, text in cells]


def findings(state: RunState) -> tuple[object, ...]:
    """Return what the checks have found so far: equal as long as nothing is new."""
    return state.phase, *state.checks.values()


def problems(state: RunState) -> list[CheckFinished]:
    """List failures, then warnings, by host and check; the same of several hosts once."""
    order = names(state)
    bad = [check for check in state.checks.values() if check.outcome in AMISS and is_told(check)]

    def place(check: CheckFinished) -> tuple[int, int, int]:
        return AMISS.index(check.outcome), check.host, order.index(check.check)

    return sorted(bad, key=place)


def describe(state: RunState, check: CheckFinished) -> list[str]:
    """Describe a failure or warning: what it is, and what to do about it."""
    hosts = whose([host.name for host in state.hosts], check)
    sign = palette.sign(GLYPHS[check.outcome])
    lines = [f"{sign} {hosts}{check.check} {check.outcome}: {one_line(check.text)}"]
    if check.advice:
        lines.append(f"    {one_line(check.advice)}")
    return lines


def verdict(state: RunState) -> str:
    """Sum up the checks: "16 checks on 4 hosts: all passed"."""
    if not state.checks:
        return "no checks"
    checks = count(len(state.checks), "check")
    hosts = count(len(state.hosts), "host")
    return f"{checks} on {hosts}: {outcome_counts(state)}"


def outcome_counts(state: RunState) -> str:
    """Count what is amiss: "1 failed, 2 warnings"; else "all passed"."""
    outcomes = [check.outcome for check in state.checks.values()]
    failures = outcomes.count(FAILED)
    warnings = outcomes.count(WARNING)
    bad = [f"{failures} {FAILED}"] if failures else []
    if warnings:
        bad.append(count(warnings, WARNING))
    return ", ".join(bad) or "all passed"


def code(state: RunState) -> int:
    """Return the exit code: 0 passed, 2 a check failed, 3 a host was not reached or lost, 130
    stopped."""
    if state.stop_reason:
        return Verdict.STOPPED.value
    failed = [key for key, check in state.checks.items() if check.outcome == FAILED]
    unfit = {host for host, name in failed if name in UNFIT}
    for host in state.hosts:
        is_away = host.hello is None or host.phase is HostPhase.LOST
        if is_away and host.index not in unfit:
            return Verdict.LOST.value
    return Verdict.REFUSED.value if failed else 0


def objects(state: RunState) -> Iterator[dict[str, Any]]:
    """Make one JSON-ready object per check; `host` is None for a check of all hosts together."""
    order = names(state)
    for check in sorted(state.checks.values(), key=lambda one: (one.host, order.index(one.check))):
        yield {
            "host": state.host_name(check.host) or None,
            "check": check.check,
            "outcome": check.outcome,
            "text": one_line(check.text),
            "advice": one_line(check.advice),
        }
