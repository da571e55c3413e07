"""What the checks before a run have found, as plain text: the table of hosts and checks, then what
is amiss and what to do.

Takes the words of hosts fit to be shown; a glyph stands before each outcome's word, in ASCII where
the terminal has no UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from remote.doctor.doctor import CHECKS, FAILED, OK, UNFIT, WARNING, is_told, whose
from remote.events import Checked
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
    found = {check for _, check in state.checks}
    return [name for name in CHECKS if name in found] + sorted(found.difference(CHECKS))


def cell(state: RunState, host: int, name: str, *, short: bool = False) -> Cell:
    """Make the cell of a check on a host: a short finding that is ok, otherwise the outcome."""
    check = state.checks.get((host, name))
    if check is None:
        return "", palette.sign("rest")
    text = one_line(check.text)
    word = text if check.outcome == OK and not short and len(text) <= LONGEST else check.outcome
    return check.outcome, f"{palette.sign(GLYPHS.get(check.outcome, 'rest'))} {word}"


def grids(state: RunState, width: int) -> Iterator[list[list[Cell]]]:
    """Make the table, in parts that fit the width: a row per check and a column per host.

    Where that takes several parts, a row per host if that takes only one.
    """
    hosts = range(len(state.hosts))
    checks = names(state)
    fit = list(_parts([_column(state, host, checks) for host in hosts], width, _head(checks)))
    if len(fit) > 1:
        head = [("", "host"), *(("", name) for name in checks)]
        rows = [
            [
                ("", state.hosts[host].name),
                *(cell(state, host, name, short=True) for name in checks),
            ]
            for host in hosts
        ]
        widths = _widths([head, *rows])
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            yield [head, *rows]
            return
    yield from fit


def _head(checks: Sequence[str]) -> list[Cell]:
    return [("", ""), *(("", name) for name in checks)]


def _column(state: RunState, host: int, checks: Sequence[str]) -> list[Cell]:
    return [("", state.hosts[host].name), *(cell(state, host, name) for name in checks)]


def _parts(
    columns: Sequence[list[Cell]], width: int, head: list[Cell]
) -> Iterator[list[list[Cell]]]:
    """Split the columns into parts that fit the width, each behind the head."""
    begun = [head]
    for column in columns:
        if len(begun) > 1 and sum(map(_width, [*begun, column])) + 2 * len(begun) > width:
            yield [list(row) for row in zip(*begun, strict=True)]
            begun = [head]
        begun.append(column)
    yield [list(row) for row in zip(*begun, strict=True)]


def _width(column: Sequence[Cell]) -> int:
    return max(len(text) for _, text in column)


def _widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [_width(column) for column in zip(*rows, strict=True)]


def table(state: RunState, width: int) -> list[list[Cell]]:
    """Make the lines of the table, each as padded cells; an empty line ends each part."""
    lines: list[list[Cell]] = []
    for rows in grids(state, width):
        widths = _widths(rows)
        lines += [
            [(kind, text.ljust(wide)) for (kind, text), wide in zip(row, widths, strict=True)]
            for row in rows
        ]
        lines.append([])
    return lines


def findings(state: RunState) -> tuple[object, ...]:
    """Return what the checks have found so far: equal as long as nothing is new."""
    return state.phase, *state.checks.values()


def problems(state: RunState) -> list[Checked]:
    """List failures, then warnings, by host and check; the same of several hosts once."""
    order = {name: number for number, name in enumerate(names(state))}
    found = [check for check in state.checks.values() if check.outcome in AMISS and is_told(check)]
    return sorted(
        found, key=lambda check: (AMISS.index(check.outcome), check.on, order[check.check])
    )


def describe(state: RunState, check: Checked) -> list[str]:
    """Describe a failure or warning: what it is, and what to do about it."""
    where = whose([host.name for host in state.hosts], check)
    text = (
        f"{palette.sign(GLYPHS[check.outcome])} {where}{check.check} {check.outcome}: "
        f"{one_line(check.text)}"
    )
    return [text, f"    {one_line(check.advice)}"] if check.advice else [text]


def verdict(state: RunState) -> str:
    """Sum up the checks: "16 checks on 4 hosts: all passed"."""
    if not state.checks:
        return "no checks"
    counts = [
        (sum(check.outcome == kind for check in state.checks.values()), kind) for kind in AMISS
    ]
    bad = [
        count(number, kind) if kind == WARNING else f"{number} {kind}"
        for number, kind in counts
        if number
    ]
    checks = count(len(state.checks), "check")
    hosts = count(len(state.hosts), "host")
    return f"{checks} on {hosts}: {', '.join(bad) or 'all passed'}"


def code(state: RunState) -> int:
    """Return the exit code: 0 passed, 2 a check failed, 3 a host was not reached or lost, 130
    stopped."""
    if state.stop_reason:
        return Verdict.STOPPED.value
    unfit = {
        on
        for (on, name), check in state.checks.items()
        if check.outcome == FAILED and name in UNFIT
    }
    if any(
        host.hello is None or host.phase is HostPhase.LOST
        for host in state.hosts
        if host.index not in unfit
    ):
        return Verdict.LOST.value
    return (
        Verdict.REFUSED.value
        if any(check.outcome == FAILED for check in state.checks.values())
        else 0
    )


def objects(state: RunState) -> Iterator[dict[str, Any]]:
    """Make one JSON-ready object per check; `host` is None for a check of all hosts together."""
    order = {name: number for number, name in enumerate(names(state))}
    for check in sorted(state.checks.values(), key=lambda check: (check.on, order[check.check])):
        texts = {
            "check": check.check,
            "outcome": check.outcome,
            "text": one_line(check.text),
            "advice": one_line(check.advice),
        }
        yield {"host": state.host_name(check.on) or None} | texts
