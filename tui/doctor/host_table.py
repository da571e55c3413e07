"""What the checks have found, for the screen: a row per host, what leaving a host out is worth, and
what was passed besides.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from remote.doctor.doctor import CHECKS, OK, WARNING
from remote.doctor.step_estimate import ExclusionEstimate, StepEstimate
from remote.format import count, listed
from remote.run.run_state import RunState
from tui.doctor import checks
from tui.doctor.checks import BAR, DIM, GAP_WIDTH, HEAD, SIGNS, TITLE, WORST_FIRST, Cell
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
LEAST_BAR_WIDTH, BAR_WIDTH = 15, 30
"""A shorter bar takes the room of the samples per rank."""
MOST_VALUES = 8
"""So many different values of a passed check are listed."""


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


def make_host_table(state: RunState, columns: Sequence[str]) -> list[list[Cell]]:
    """Return a head and a row per host. What is amiss has a sign, at the host and at the value."""
    host_width, *widths = _measure_columns(state, columns)
    titles = [name.ljust(width) for name, width in zip(columns, widths, strict=True)]
    head = " " * GAP_WIDTH + "host".ljust(host_width) + "".join(titles)
    lines: list[list[Cell]] = [[(HEAD, head.rstrip())]]
    for host in _order_hosts(state):
        outcome = _find_worst_of_host(state, host)
        sign = palette.sign(SIGNS[outcome]) if outcome in checks.PROBLEMS else ""
        name = state.host_name(host).ljust(host_width)
        line = [(outcome, sign.ljust(GAP_WIDTH)), ("", name)]
        for check_name, width in zip(columns, widths, strict=True):
            line.append(_make_cell(state, host, check_name, width))
        lines.append(line)
    return lines


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


def make_estimate(
    estimate: ExclusionEstimate, names: Sequence[str], width: int
) -> list[list[Cell]]:
    """Return lines that compare the steps of all hosts with those without some."""
    with_all, without = estimate.with_all, estimate.without
    label_texts = [f"with all {count(with_all.hosts, 'host')}", f"without {listed(names)}"]
    label_width = max(map(len, label_texts)) + 2 * GAP_WIDTH
    factor_texts = [f"{step.compute_factor:.2g} times" for step in (with_all, without)]
    factor_width = max(map(len, factor_texts)) + GAP_WIDTH
    speedup: Cell = (TITLE, f"{estimate.speedup:.2g} times as fast")
    notes = [_describe_share(with_all), [*_describe_share(without), speedup]]
    room = width - label_width - factor_width - GAP_WIDTH
    if room - _measure_notes(notes) < LEAST_BAR_WIDTH:
        notes = [[], [speedup]]
    bar_width = max(1, min(BAR_WIDTH, room - _measure_notes(notes)))
    longest = max(with_all.compute_factor, without.compute_factor)
    unit = f"  compared with {estimate.usual_cores:.3g} cores per rank"
    lines: list[list[Cell]] = [[(TITLE, "  estimated time to compute a step"), (DIM, unit)]]
    rows = zip(label_texts, factor_texts, (with_all, without), notes, strict=True)
    for label, factor_text, step, note in rows:
        bar = palette.sign("full") * max(1, round(step.compute_factor / longest * bar_width))
        cells = [
            ("", f"  {label}".ljust(label_width)),
            (WARNING if step is with_all else BAR, bar.ljust(bar_width + GAP_WIDTH)),
            ("", factor_text.ljust(factor_width)),
        ]
        lines.append([*cells, *note])
    return [_cut_line(line, width) for line in lines]


def _describe_share(step: StepEstimate) -> list[Cell]:
    """Say what a rank has to do in a step, if that is known."""
    if not step.samples_per_rank:
        return []
    return [(DIM, f"{count(step.samples_per_rank, 'sample')} per rank  ")]


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


def make_passed_summary(state: RunState, key: str, *, is_folded: bool) -> list[Cell]:
    """Return a line on how many checks were passed. The key lists those without a column."""
    passed = sum(check.outcome == OK for check in state.checks.values())
    total = len(state.checks)
    text = f"{passed} of {count(total, 'check')} passed"
    if not checks.have_ended(state):
        text = f"{count(passed, 'check')} passed so far"
    hint = f"   {key} lists them" if is_folded else f"   {key} folds them"
    problems = checks.list_problems(state)
    if not problems:
        sign = palette.sign(SIGNS[OK]).ljust(GAP_WIDTH)
        return [(OK, sign), ("", text), (DIM, hint)]
    worst = problems[0]
    sign = palette.sign(SIGNS[worst.outcome]).ljust(GAP_WIDTH)
    subject = f"{checks.name_hosts(state, worst).replace(': ', ' ')}{worst.check}"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return [(worst.outcome, f"{sign}{subject}{more}"), (DIM, f"   {text}{hint}")]


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
