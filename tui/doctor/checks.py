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


def cell(state: RunState, host: int, name: str, *, short: bool = False) -> Cell:
    """Make the cell of a check on a host: a short finding that is ok, otherwise the outcome."""
    check = state.checks.get((host, name))
    if check is None:
        return "", palette.sign("rest")
    word = check.outcome
    text = one_line(check.text)
    if check.outcome == OK and not short and len(text) <= LONGEST:
        word = text
    sign = palette.sign(GLYPHS.get(check.outcome, "rest"))
    return check.outcome, f"{sign} {word}"


def grids(state: RunState, width: int) -> Iterator[list[list[Cell]]]:
    """Make the table, in parts that fit the width: a row per check and a column per host.

    If that takes several parts, make a row per host, provided that takes only one.
    """
    hosts = range(len(state.hosts))
    checks = names(state)
    head = [("", ""), *(("", name) for name in checks)]
    columns = [_line_of_host(state, host, checks) for host in hosts]
    parts = list(_split(columns, width, head))
    if len(parts) > 1:
        rows = [[("", "host"), *head[1:]]]
        rows += [_line_of_host(state, host, checks, short=True) for host in hosts]
        widths = _widths(rows)
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            yield rows
            return
    yield from parts


def _line_of_host(
    state: RunState, host: int, checks: Sequence[str], *, short: bool = False
) -> list[Cell]:
    return [
        ("", state.hosts[host].name),
        *(cell(state, host, name, short=short) for name in checks),
    ]


def _split(
    columns: Sequence[list[Cell]], width: int, head: list[Cell]
) -> Iterator[list[list[Cell]]]:
    """Split the columns into parts that fit the width, each behind the head."""
    part = [head]
    for column in columns:
        needed = sum(_width(one) for one in (*part, column)) + 2 * len(part)
        if len(part) > 1 and needed > width:
            yield _turned(part)
            part = [head]
        part.append(column)
    yield _turned(part)


def _turned(columns: Sequence[list[Cell]]) -> list[list[Cell]]:
    return [list(row) for row in zip(*columns, strict=True)]


def _width(column: Sequence[Cell]) -> int:
    return max(len(text) for _, text in column)


def _widths(rows: Sequence[list[Cell]]) -> list[int]:
    return [_width(column) for column in _turned(rows)]


def table(state: RunState, width: int) -> list[list[Cell]]:
    """Make the lines of the table, each as padded cells; an empty line ends each part."""
    lines: list[list[Cell]] = []
    for rows in grids(state, width):
        widths = _widths(rows)
        for row in rows:
            padded = zip(row, widths, strict=True)
            lines.append([(kind, text.ljust(wide)) for (kind, text), wide in padded])
        lines.append([])
    return lines


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
