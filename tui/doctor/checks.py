"""What the checks before a run have found, as plain text: a row per check, then what is amiss and
what to do.

The words of hosts are made fit to be shown. A sign stands before each outcome, in ASCII if the
terminal has no UTF-8.
"""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from remote.doctor.doctor import CHECKS, FAILED, OK, UNFIT, WARNING, is_told, whose
from remote.events import CheckFinished
from remote.format import count, listed
from remote.run.run_state import RunState
from remote.run.state.phases import HostPhase, RunPhase, Verdict
from remote.sanitise import one_line
from training.wire.events import SESSION
from tui.kit import palette

GAP_WIDTH = 2
SIGNS = {OK: "good", WARNING: "slow", FAILED: "bad", "": "rest"}
"""The sign (see `palette`) of each outcome, and of a check that was not made."""
VITAL = "torch"
"""The check whose problems come first: a script without the torch that it imports will fail."""
PROBLEMS = (FAILED, WARNING)
WORST_FIRST = (*PROBLEMS, "", OK)
MOST_FINDINGS = 3
"""So many different findings are told of each host that has them; of more, only what is amiss."""
COMMAND = "command"
HEAD = "head"
TITLE = "title"
DIM = "dim"
KEY = "key"
BAR = "bar"
"""Stand for the outcome of a command, the head of a table, the title of what is below, what needs
no look, a bar, or a key."""
Cell = tuple[str, str]
"""An outcome ("" for none), which chooses the ink, and a text."""


def list_check_names(state: RunState) -> list[str]:
    """Return the names of the checks in order."""
    made = {check for _, check in state.checks}
    return [name for name in CHECKS if name in made] + sorted(made.difference(CHECKS))


def make_table(state: RunState, width: float = math.inf) -> list[list[Cell]]:
    """Return the lines of the table, each as cells that stand side by side: a row per check.

    A row whose hosts differ names those that do: "0.1 on node3, others 0.4".
    """
    rows = [make_rows(state, name, width) for name in list_check_names(state)]
    return [line for row in rows for line in row]


def make_rows(state: RunState, name: str, width: float) -> list[list[Cell]]:
    """Return the lines of a check."""
    name_width = max(map(len, list_check_names(state))) + GAP_WIDTH
    room = width - name_width - GAP_WIDTH
    findings = list_findings(state, name)
    outcome = find_worst(state, name)
    # For what is well, the colour of the sign is enough.
    ink = "" if outcome == OK else outcome
    first_text, *more_texts = wrap(describe_findings(findings, room), room)
    sign = palette.sign(SIGNS[outcome])
    head = [("", name.ljust(name_width)), (outcome, sign.ljust(GAP_WIDTH))]
    indent = " " * (name_width + GAP_WIDTH)
    return [[*head, (ink, first_text)], *([("", indent), (ink, text)] for text in more_texts)]


def find_worst(state: RunState, name: str) -> str:
    """Return the worst outcome of a check."""
    outcomes = [finding.outcome for finding in list_findings(state, name)]
    return min(outcomes, key=WORST_FIRST.index)


def wrap(text: str, width: float, indent: str = "") -> list[str]:
    """Break a text into lines between words; names and commands stay whole."""
    if len(text) <= width:
        return [text]
    lines = textwrap.wrap(
        text,
        max(int(width), len(indent) + 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [""]


def wrap_command(command: str, width: float) -> list[str]:
    """Break a command between its words into lines that a shell takes as one command."""
    try:
        words = shlex.split(command)
    except ValueError:  # a record that no version of ours has written
        return [command]
    lines: list[str] = []
    line = ""
    for word in map(shlex.quote, words):
        longer = f"{line} {word}" if line else word
        # The 2 are a blank and the backslash.
        if line and len(longer) > width - 2:
            lines.append(f"{line} \\")
            longer = word
        line = longer
    return [*lines, line]


@dataclass
class _Finding:
    """What a check has found of some hosts, in a few words."""

    outcome: str
    text: str
    hosts: list[str]

    @property
    def of_hosts(self) -> str:
        return f"{self.text} on {listed(self.hosts)}"


def list_findings(state: RunState, name: str) -> list[_Finding]:
    """Return what a check has found, in the order of the hosts. What is equal is there once."""
    findings: dict[Cell, _Finding] = {}
    hosts = [SESSION] if (SESSION, name) in state.checks else range(len(state.hosts))
    for host in hosts:
        outcome, text = describe_check(state.checks.get((host, name)))
        finding = findings.setdefault((outcome, text), _Finding(outcome, text, []))
        finding.hosts.append(state.host_name(host))
    return list(findings.values())


def describe_check(check: CheckFinished | None) -> Cell:
    """Return the outcome of a check of a host, and its value; without a value, a word."""
    if check is None:
        return "", "not checked"
    text = check.text if check.outcome == OK else check.value or check.outcome
    # Hosts say the outcome, so it may be any word.
    return check.outcome if check.outcome in SIGNS else "", one_line(text)


def describe_findings(findings: Sequence[_Finding], room: float) -> str:
    """Return what a check has found of all hosts, as one text."""
    usual = max(findings, key=lambda finding: (finding.outcome == OK, len(finding.hosts)))
    if len(findings) == 1:
        return usual.text
    are_all_well = all(finding.outcome == OK for finding in findings)
    if are_all_well and len(findings) > 2:
        values = [finding.text for finding in findings]
        text = ", ".join(values)
        return text if len(text) <= room else f"{values[0]} … {values[-1]}"
    rest_text = usual.text
    odd_findings = [finding for finding in findings if finding is not usual]
    if len(findings) > MOST_FINDINGS and usual.outcome == OK:
        rest_text = OK
        odd_findings = [finding for finding in findings if finding.outcome != OK]
    if len(usual.hosts) == 1 and rest_text == usual.text:
        named_findings = findings if are_all_well else [*odd_findings, usual]
        return ", ".join(finding.of_hosts for finding in named_findings)
    texts = [finding.of_hosts for finding in odd_findings]
    return ", ".join([*texts, f"others {rest_text}"])


def take_findings(state: RunState) -> tuple[object, ...]:
    """Return what the checks have found so far: equal as long as nothing is new."""
    return state.phase, *state.checks.values()


def _sort_checks(state: RunState) -> list[CheckFinished]:
    """Return all checks by host, then in order."""
    names = list_check_names(state)
    checks = state.checks.values()
    return sorted(checks, key=lambda check: (check.host, names.index(check.check)))


def have_ended(state: RunState) -> bool:
    """Return True if all checks were made: they were all there was to do, or ranks were started."""
    return state.phase is RunPhase.ENDED or any(rank.pid for rank in state.ranks)


def list_problems(state: RunState) -> list[CheckFinished]:
    """Return failures, then warnings, by host and check; the same of several hosts once. What is
    found of all hosts alike comes behind what is found of some, but for what is vital."""
    told = [check for check in _sort_checks(state) if is_told(check) and check.outcome in PROBLEMS]

    def rank_problem(check: CheckFinished) -> tuple[int, bool, bool]:
        is_vital = check.check == VITAL
        return PROBLEMS.index(check.outcome), not is_vital, not is_of_some(state, check)

    return sorted(told, key=rank_problem)


def is_of_some(state: RunState, check: CheckFinished) -> bool:
    """Return True if a finding is about some of the hosts, and not about all of them."""
    return check.host != SESSION and len(check.same or (check.host,)) < len(state.hosts)


def name_hosts(state: RunState, check: CheckFinished) -> str:
    """Return how a line on a finding begins: "node3: "; "" if it is about all hosts together."""
    if len(check.same) == len(state.hosts):
        return "all hosts: "
    return whose([host.name for host in state.hosts], check)


def describe_problem(
    state: RunState, check: CheckFinished, width: float = math.inf, exclusion: str = ""
) -> list[Cell]:
    """Return the lines of a failure or warning: what it is, and the command that helps, or else
    advice and the `exclusion`, a command that goes on without its hosts."""
    hosts = name_hosts(state, check)
    # The sign is enough for a warning.
    outcome = FAILED if check.outcome == FAILED else ""
    subject = " ".join(filter(None, (check.check, outcome)))
    sign = palette.sign(SIGNS.get(check.outcome, "rest"))
    lines = wrap(f"{sign} {hosts}{subject}: {one_line(check.text)}", width, "  ")
    cells = [(check.outcome, line) for line in lines]
    if check.advice and not check.command:
        advice_lines = wrap(f"    {one_line(check.advice)}", width, "    ")
        cells += [("", line) for line in advice_lines]
    command = check.command or exclusion
    if command:
        command_lines = wrap_command(one_line(command), width - 4)
        cells.append((COMMAND, f"  {palette.sign('command')} {command_lines[0]}"))
        cells += [(COMMAND, f"    {line}") for line in command_lines[1:]]
    return cells


def summarise(state: RunState) -> str:
    """Sum up the checks: "16 checks on 4 hosts: all passed"."""
    if not state.checks:
        return "no checks"
    return f"{count_checks(state)}: {count_outcomes(state)}"


def count_checks(state: RunState) -> str:
    """Count the checks and the hosts: "16 checks on 4 hosts"."""
    return f"{count(len(state.checks), 'check')} on {count(len(state.hosts), 'host')}"


def count_outcomes(state: RunState) -> str:
    """Count what is amiss, the same of several hosts once: "1 failed, 2 warnings"; else "all
    passed"."""
    outcomes = [check.outcome for check in list_problems(state)]
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
