"""What the checks have found, for the screen: hosts side by side, what it is worth to leave a host
out, and what was passed besides.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from remote.doctor.doctor import CHECKS, FAILED, OK, WARNING
from remote.doctor.step_estimate import ExclusionEstimate, StepEstimate
from remote.format import count, listed
from remote.run.run_state import RunState
from tui.doctor import checks
from tui.doctor.checks import BAR, DIM, GAP_WIDTH, HEAD, KEY, SIGNS, TITLE, WORST_FIRST, Cell
from tui.kit import palette

COLUMNS = (
    *("cores", "memory", "load", "gpus", "python", "torch"),
    *("interface", "connect", "clock"),
)
"""The checks with a column of their own, as people compare hosts by them."""
LEAST_NEEDED_FIRST = ("gpus", "load", "clock", "python", "connect", "torch", "interface", "memory")
"""The columns to leave out, in this order, where there is no room for all."""
MANY_HOSTS = 12
"""From so many hosts on, those with findings come first."""
LEAST_BAR_WIDTH = 10
"""A shorter bar takes the room of the words beside it."""
BAR_SHARE = 3
"""The longest bar takes at most this part of the width: a third."""
MOST_SPREAD = 8
"""So many more cells than they need have hosts that stand side by side, where there is room."""
MOST_VALUES = 8
"""So many different values of a passed check are listed."""


class HostLine(NamedTuple):
    """A line of the screen."""

    cells: Sequence[Cell] = ()
    ground: str = ""
    """The outcome that chooses the ground of the whole line, WARNING or FAILED; "" for none."""


def choose_columns(state: RunState, width: int) -> list[str] | None:
    """Return the checks that have a column: those with findings first, then what fits of the usual
    ones. Return None where not even the findings fit."""
    names = [name for name in checks.list_check_names(state) if not _is_of_all(state, name)]
    outcomes = {name: checks.find_worst(state, name) for name in names}
    findings = [name for name in names if outcomes[name] in checks.PROBLEMS]
    findings.sort(key=lambda name: WORST_FIRST.index(outcomes[name]))
    columns = [*findings, *(name for name in COLUMNS if name in names and name not in findings)]
    for name in LEAST_NEEDED_FIRST:
        if _measure_table(state, columns) <= width:
            break
        if name in columns and name not in findings:
            columns.remove(name)
    return columns if _measure_table(state, columns) <= width else None


def make_host_table(state: RunState, columns: Sequence[str]) -> list[HostLine]:
    """Return a head and a row per host. What is amiss has a sign, at the host and at the value."""
    host_width, *widths = _measure_columns(state, columns)
    titles = [name.ljust(width) for name, width in zip(columns, widths, strict=True)]
    head = " " * GAP_WIDTH + "host".ljust(host_width) + "".join(titles)
    lines = [HostLine([(HEAD, head.rstrip())])]
    for host in _order_hosts(state):
        outcome = _find_worst_of_host(state, host)
        sign = palette.sign(SIGNS[outcome]) if outcome in checks.PROBLEMS else ""
        name = state.host_name(host).ljust(host_width)
        line = [(outcome, sign.ljust(GAP_WIDTH)), ("", name)]
        for check_name, width in zip(columns, widths, strict=True):
            line.append(_make_cell(state, host, check_name, width))
        lines.append(HostLine(line, _choose_ground(outcome)))
    return lines


def find_same_checks(state: RunState, names: Sequence[str]) -> list[str]:
    """Return the checks that have found the same on all hosts, and nothing amiss; none of a single
    host."""
    hosts = [host.index for host in state.hosts]
    if len(hosts) < 2:
        return []
    same_names = []
    for name in names:
        values = {_describe_value(state, host, name) for host in hosts}
        if len(values) == 1 and checks.find_worst(state, name) not in checks.PROBLEMS:
            same_names.append(name)
    return same_names


def make_check_table(state: RunState, names: Sequence[str], width: int) -> list[HostLine]:
    """Return a head and a row per check, with the hosts side by side; what is the same of all is
    dim. Return nothing where the hosts do not fit."""
    hosts = _order_hosts(state)
    label_width = max(map(len, ("host", *names))) + GAP_WIDTH
    host_widths = []
    for host in hosts:
        texts = [_describe_value(state, host, name)[1] for name in names]
        host_widths.append(max(map(len, (state.host_name(host), *texts))) + GAP_WIDTH)
    # The gap behind the last host makes up for the sign before the label.
    free_cells = width - label_width - sum(host_widths)
    if free_cells < 0:
        return []
    spread = min(MOST_SPREAD, free_cells // len(hosts))
    host_widths = [host_width + spread for host_width in host_widths]
    head = [(HEAD, " " * GAP_WIDTH + "host".ljust(label_width))]
    for host, host_width in zip(hosts, host_widths, strict=True):
        outcome = _find_worst_of_host(state, host)
        ink = outcome if outcome in checks.PROBLEMS else HEAD
        head.append((ink, state.host_name(host).ljust(host_width)))
    lines = [HostLine(head)]
    for name in names:
        outcome = checks.find_worst(state, name)
        sign = palette.sign(SIGNS[outcome]) if outcome in checks.PROBLEMS else ""
        cells = [(outcome, sign.ljust(GAP_WIDTH)), (DIM, name.ljust(label_width))]
        is_same = len({_describe_value(state, host, name) for host in hosts}) == 1
        for host, host_width in zip(hosts, host_widths, strict=True):
            ink, text = _make_cell(state, host, name, host_width)
            cells.append((DIM if is_same and not ink else ink, text))
        lines.append(HostLine(cells, _choose_ground(outcome)))
    return lines


def list_host_checks(state: RunState) -> list[str]:
    """Return the checks that each host has: those with findings, the usual columns, the rest."""
    names = [name for name in checks.list_check_names(state) if not _is_of_all(state, name)]
    if "interface" in names and "address" in names and _names_addresses(state):
        names.remove("address")
    usual_names = [name for name in COLUMNS if name in names]
    other_names = [name for name in names if name not in COLUMNS]
    outcomes = {name: checks.find_worst(state, name) for name in names}
    failed = [name for name in names if outcomes[name] == FAILED]
    warned = [name for name in names if outcomes[name] == WARNING]
    return list(dict.fromkeys([*failed, *warned, *usual_names, *other_names]))


def _choose_ground(outcome: str) -> str:
    return outcome if outcome in checks.PROBLEMS else ""


def _is_of_all(state: RunState, name: str) -> bool:
    """Return True if a check is one of all hosts together."""
    return not any((host.index, name) in state.checks for host in state.hosts)


def _order_hosts(state: RunState) -> list[int]:
    hosts = [host.index for host in state.hosts]
    if len(hosts) >= MANY_HOSTS:
        hosts.sort(key=lambda host: WORST_FIRST.index(_find_worst_of_host(state, host)))
    return hosts


def _find_worst_of_host(state: RunState, host: int) -> str:
    outcomes = [check.outcome for (index, _), check in state.checks.items() if index == host]
    known_outcomes = [outcome for outcome in outcomes if outcome in SIGNS]
    return min(known_outcomes, key=WORST_FIRST.index, default="")


def _make_cell(state: RunState, host: int, name: str, width: int) -> Cell:
    """Return a cell as wide as its column; a value that is amiss has a sign and an ink."""
    outcome, text = _describe_value(state, host, name)
    ink = outcome if outcome in checks.PROBLEMS else ""
    return ink, text.ljust(width)


def _describe_value(state: RunState, host: int, name: str) -> Cell:
    """Return the outcome of a check of a host, and the text of its cell."""
    outcome, text = checks.describe_check(state.checks.get((host, name)))
    if outcome in checks.PROBLEMS:
        return outcome, f"{text} {palette.sign(SIGNS[outcome])}"
    if not outcome:  # where nothing was checked, a sign is enough
        return outcome, palette.sign(SIGNS[outcome])
    # What follows explains the value: "none: trains on CPUs".
    return outcome, text.partition(": ")[0]


def _measure_columns(state: RunState, columns: Sequence[str]) -> list[int]:
    """Return the widths of the columns; the first is that of the names of hosts."""
    hosts = [host.index for host in state.hosts]
    texts_by_column = [["host", *map(state.host_name, hosts)]]
    for name in columns:
        texts = [_describe_value(state, host, name)[1] for host in hosts]
        texts_by_column.append([name, *texts])
    return [max(map(len, texts)) + GAP_WIDTH for texts in texts_by_column]


def _measure_table(state: RunState, columns: Sequence[str]) -> int:
    """Return the width of the table: the sign, the columns, and no gap behind the last one."""
    return GAP_WIDTH + sum(_measure_columns(state, columns)) - GAP_WIDTH


# What leaving a host out is worth


class HostChoice(NamedTuple):
    """What a person may do about a weak host. The keys stand in the verdict."""

    text: str
    step: StepEstimate
    """What a step is then."""
    is_advised: bool = False


def make_choices(
    choices: Sequence[HostChoice], estimate: ExclusionEstimate, names: Sequence[str], width: int
) -> list[HostLine]:
    """Return a line for each choice, with a bar as long as a step then computes. `names` are those
    of the hosts that all would wait for."""
    label_width = max(len(choice.text) for choice in choices) + GAP_WIDTH
    room = width - GAP_WIDTH - label_width - GAP_WIDTH
    for is_brief in (False, True):
        notes = [_describe_choice(choice, estimate, names, is_brief=is_brief) for choice in choices]
        if room - _measure_notes(notes) >= LEAST_BAR_WIDTH:
            break
    else:
        notes = [note[:1] for note in notes]
    bar_width = max(1, min(width // BAR_SHARE, room - _measure_notes(notes)))
    longest = max(choice.step.compute_factor for choice in choices)
    blank_label = " " * (GAP_WIDTH + label_width)
    head: list[Cell] = [(DIM, f"{blank_label}time to compute a step without sync, estimated")]
    lines = [HostLine(_cut_line(head, width))]
    for choice, note in zip(choices, notes, strict=True):
        bar = palette.sign("full") * max(1, round(choice.step.compute_factor / longest * bar_width))
        sign = palette.sign("playing") if choice.is_advised else ""
        cells = [
            (KEY, sign.ljust(GAP_WIDTH)),
            (TITLE if choice.is_advised else "", choice.text.ljust(label_width)),
            (BAR if choice.is_advised else WARNING, bar.ljust(bar_width + GAP_WIDTH)),
        ]
        lines.append(HostLine(_cut_line([*cells, *note], width)))
    return lines


def _describe_choice(
    choice: HostChoice, estimate: ExclusionEstimate, names: Sequence[str], *, is_brief: bool
) -> list[Cell]:
    """Say what a choice means for a step, and what a rank has to do then, if that is known."""
    effect: Cell = ("", f"all wait for {listed(names)}")
    if choice.is_advised:
        effect = ("", f"{estimate.speedup:.2g}x faster to compute")
    samples = choice.step.samples_per_rank
    if not samples:
        return [effect]
    hosts = count(choice.step.hosts, "host")
    work = "" if is_brief else f", {count(samples, 'sample')} per rank, {hosts}"
    return [effect, (DIM, work)]


def _measure_notes(notes: Sequence[Sequence[Cell]]) -> int:
    return max(sum(len(text) for _, text in note) for note in notes)


def _cut_line(line: Sequence[Cell], width: int) -> list[Cell]:
    """Return the cells of a line that fit as a whole."""
    fitting: list[Cell] = []
    for ink, text in line:
        width -= len(text)
        if width < 0:
            break
        fitting.append((ink, text))
    return fitting


# What was passed besides


def make_passed_summary(state: RunState, hint: str) -> list[Cell]:
    """Return a line on how many checks were passed. `hint`: what a key does with those."""
    passed = sum(check.outcome == OK for check in state.checks.values())
    total = len(state.checks)
    text = f"{passed} of {count(total, 'check')} passed"
    if not checks.have_ended(state):
        text = f"{count(passed, 'check')} passed so far"
    problems = checks.list_problems(state)
    if not problems:
        sign = palette.sign(SIGNS[OK]).ljust(GAP_WIDTH)
        return [(OK, sign), ("", text), (DIM, f"   {hint}")]
    worst = problems[0]
    sign = palette.sign(SIGNS[worst.outcome]).ljust(GAP_WIDTH)
    subject = f"{checks.name_hosts(state, worst).replace(': ', ' ')}{worst.check}"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    if checks.have_ended(state) and passed + len(problems) == total:
        text = "all other checks passed"
    return [(worst.outcome, f"{sign}{subject}{more}"), (DIM, f"   {text}   {hint}")]


def make_passed_rows(state: RunState, columns: Container[str], width: int) -> Iterator[list[Cell]]:
    """Yield a row for each check without a column that all hosts have passed, with its values."""
    names = [
        name
        for name in checks.list_check_names(state)
        if name not in columns and checks.find_worst(state, name) == OK
    ]
    if "interface" in columns and _names_addresses(state):
        names = [name for name in names if name != "address"]
    name_width = max(map(len, CHECKS)) + GAP_WIDTH
    indent = " " * GAP_WIDTH
    for name in names:
        values = dict.fromkeys(finding.text for finding in checks.list_findings(state, name))
        texts = checks.wrap(listed(list(values), MOST_VALUES), width - name_width - GAP_WIDTH)
        yield [("", indent + name.ljust(name_width)), ("", texts[0])]
        for text in texts[1:]:
            yield [("", indent + " " * name_width + text)]


def _names_addresses(state: RunState) -> bool:
    """Return True if the interface of each host is told with the address of the host."""
    return all(
        checks.describe_check(state.checks.get((host.index, "address")))[1]
        in checks.describe_check(state.checks.get((host.index, "interface")))[1]
        for host in state.hosts
    )
