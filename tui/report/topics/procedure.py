"""The measurement itself: the order of the runs, warm-up, outliers, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from remote.format import UNKNOWN, count, moment, seconds
from remote.metrics.run import RunFigures
from remote.record import marks
from remote.statistics.stability import count_warm_up
from tui.report.document import Section, TextBlock, make_table
from tui.report.local_paths import shorten_paths
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

TITLE = "How it was measured"
COMMAND_TITLE = "Command that repeats it, in the folder where it was made"
TABLE_TITLE = "Runs in the order in which they were made"
HEAD = ("started", "cell", "repetition", "run", "s/iter", "warm-up", "verdict", "remark")
NOTE = (
    "warm-up: steps at the start that are slower than is usual in the second half of the run. The "
    "first one never counts."
)
BLOCKS = (
    "Each repetition is a block: every cell once, in shuffled order, so that a drift of the "
    "machine affects all alike. Runs of one repetition share their seed."
)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section:
    """Make the table of all runs in the order in which they were made, and the commands."""
    table = make_table(TABLE_TITLE, HEAD, _rows(subject, timing), NOTE)
    paragraphs = list(_paragraphs(subject, timing))
    texts = [TextBlock(COMMAND_TITLE, [subject.command])] if subject.command else []
    return Section("procedure", TITLE, paragraphs, [table], (), texts)


def _paragraphs(subject: ReportSubject, timing: SubjectTiming) -> Iterator[str]:
    if subject.study:
        left_out = ", ".join(timing.left_out) or "none"
        yield f"{BLOCKS} Left out of comparisons as outliers: {left_out}."
    num_failed = sum(len(group.failures) for group in subject.groups)
    if num_failed:
        yield f"Failed: {count(num_failed, 'run')}, also in the table."
    verdicts = Counter(run.verdict for group in subject.groups for run in group.uncounted)
    if verdicts:
        verdict_counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
        yield f"The table also has runs that do not count: {verdict_counts}."


def _rows(subject: ReportSubject, timing: SubjectTiming) -> list[tuple[str, ...]]:
    run_rows: list[tuple[str, ...]] = []
    for group in subject.groups:
        for repetition, run in group.by_repetition.items():
            is_outlier = f"{group.label} #{repetition}" in timing.left_out
            run_rows.append(_row(group, repetition, run, is_outlier))
        for uncounted_run in (*group.failures, *group.uncounted):
            run_rows.append(
                (
                    UNKNOWN,
                    group.label,
                    str(uncounted_run.repetition),
                    uncounted_run.run,
                    UNKNOWN,
                    UNKNOWN,
                    uncounted_run.verdict,
                    shorten_paths(uncounted_run.cause) or UNKNOWN,
                )
            )
    # Names of runs begin with the time of their start.
    return sorted(run_rows, key=lambda row: row[HEAD.index("run")])


def _row(group: RunGroup, repetition: int, run: RunFigures, is_outlier: bool) -> tuple[str, ...]:
    _, step_seconds = run.steps.mean_over_ranks("seconds")
    return (
        moment(run.started, exact=True),
        group.label,
        str(repetition),
        run.name,
        seconds(run.step_seconds()),
        count(count_warm_up(step_seconds), "step"),
        run.state,
        ", ".join(_remarks(run, is_outlier)) or UNKNOWN,
    )


def _remarks(run: RunFigures, is_outlier: bool) -> Iterator[str]:
    if is_outlier:
        yield "outlier"
    for flaw in run.flaws:
        yield flaw.text
    if run.restarts:
        yield count(len(run.restarts), "restart")
    if run.stalls:
        yield count(len(run.stalls), "stall")
    if run.start_load:
        yield run.start_load
    note = marks.note(run.folder)
    if note:
        yield note
