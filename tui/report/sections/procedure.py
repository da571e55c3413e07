"""How it was measured: the order of the runs, warm-up, outliers, and what failed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from remote.format import UNKNOWN, count, seconds
from remote.metrics.run import RunFigures
from remote.record import marks
from remote.statistics.stability import warm_up
from tui.report import text
from tui.report.document import Section, Table, Text
from tui.report.numbers.timing import Timing
from tui.report.subject import Group, Subject, Uncounted

TITLE = "How it was measured"
HEAD = ("started", "cell", "repetition", "run", "s/iter", "warm-up", "verdict", "remark")


def section(subject: Subject, timing: Timing) -> Section:
    """The table of all runs in the order in which they were made, and the commands."""
    return Section(
        "procedure",
        TITLE,
        list(_says(subject, timing)),
        [
            Table(
                "Runs in the order in which they were made",
                HEAD,
                _rows(subject, timing),
                "warm-up: steps at the start that are slower than is usual in the second half of "
                "the run. The first one never counts.",
            )
        ],
        (),
        _commands(subject),
    )


def _says(subject: Subject, timing: Timing) -> Iterator[str]:
    if subject.is_study:
        yield (
            "Each repetition is a block: every cell once, in shuffled order, so that a drift of "
            "the machine affects all alike. Runs of one repetition share their seed."
        )
    if timing.left_out:
        yield f"Comparisons leave out as outliers: {', '.join(timing.left_out)}."
    elif subject.is_study:
        yield "No run was left out as an outlier."
    failed = [one for group in subject.groups for one in group.failures]
    if failed:
        yield f"Failed: {count(len(failed), 'run')}, also in the table."
    uncounted = [one for group in subject.groups for one in group.uncounted]
    if uncounted:
        verdicts = Counter(one.verdict for one in uncounted)
        said = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
        yield f"The table also has runs that do not count: {said}."


def _rows(subject: Subject, timing: Timing) -> list[tuple[str, ...]]:
    """The runs by their names, which begin with the time; those that failed among them."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for group in subject.groups:
        row = timing.of(group)
        far = set(row.stability.outliers) if row else set()
        for at, (number, run) in enumerate(sorted(group.runs.items())):
            is_far = at in far or f"{group.label} #{number}" in timing.left_out
            found.append((run.name, _row(group, number, run, is_far)))
        for one in (*group.failures, *group.uncounted):
            found.append((one.run, _uncounted(group, one)))
    return [row for _, row in sorted(found)]


def _row(group: Group, number: int, run: RunFigures, is_far: bool) -> tuple[str, ...]:
    _, taken = run.steps.mean_over_ranks("seconds")
    remarks = [*(["outlier"] if is_far else []), *(["diverged"] if run.diverged else [])]
    if run.restarts:
        remarks.append(count(len(run.restarts), "restart"))
    if run.stalls:
        remarks.append(count(len(run.stalls), "stall"))
    note = marks.note(run.folder)
    if note:
        remarks.append(note)
    return (
        text.moment(run.started),
        group.label,
        str(number),
        run.name,
        seconds(run.step_seconds()),
        count(warm_up(taken), "step"),
        run.verdict.word if run.verdict else "not ended",
        ", ".join(remarks) or UNKNOWN,
    )


def _uncounted(group: Group, one: Uncounted) -> tuple[str, ...]:
    known = (group.label, str(one.repetition), one.run, seconds(math.nan), UNKNOWN)
    return (UNKNOWN, *known, one.verdict, one.cause or UNKNOWN)


def _commands(subject: Subject) -> list[Text]:
    lines = []
    if subject.again:
        lines += ["# all of it", subject.again, ""]
    for group in subject.groups:
        if group.command:
            lines += [f"# {group.label}", group.command]
    return [Text("Commands that repeat it", lines)] if lines else []
