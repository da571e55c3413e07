"""A chapter: all that is said of one subject."""

from __future__ import annotations

from collections.abc import Iterator

from remote.format import UNKNOWN
from remote.metrics.doubt import sentences
from remote.run.state.progress import not_learned
from remote.sanitise import one_line
from tui.compare.comparison_text import describe_outcome
from tui.report.document import Chapter
from tui.report.local_paths import shorten_paths
from tui.report.subject import ReportSubject
from tui.report.timing import find_doubts, measure_timing
from tui.report.topics import SECTIONS, procedure
from tui.report.topics.final_values import describe_equality, loss_ends
from tui.report.topics.machines import describe_virtual_hosts

MOST_ALERTS = 4
"""Alerts of one kind."""
QUICK = (
    "This is the quick variant of the study: its models have hardly trained, so it says little "
    "about losses and accuracies."
)


def make_chapter(subject: ReportSubject) -> Chapter:
    """Return the chapter of a subject."""
    timing = measure_timing(subject)
    sections = [make_section(subject, timing) for make_section in SECTIONS]
    alerts = dict.fromkeys(map(_finish_sentence, _list_alerts(subject)))
    doubts = find_doubts(subject, timing)
    return Chapter(
        subject.name,
        subject.heading,
        subject.study.question if subject.study else "",
        [_finish_sentence(line) for line in _list_verdict(subject)],
        list(alerts),
        [section for section in sections if section],
        sentences(doubts, subject.labels),
    )


def _list_verdict(subject: ReportSubject) -> Iterator[str]:
    """Yield what came out, and whether all trained the same."""
    fixed_names = [host.name for run in subject.runs for host in run.hosts]
    # A sentence begins with the first part of a label only.
    fixed_names += [label.split(", ")[0] for label in subject.labels.values()]
    outcome_lines = list(subject.verdict)
    if len(subject.groups) == 1 and subject.runs and not outcome_lines:
        outcome_lines = [describe_outcome(subject.runs[0])]
    for line in (
        *outcome_lines,
        *_list_remarks(subject, is_warning=False),
        *_describe_start_loads(subject),
    ):
        # Names of cells and hosts keep their first letter small in a sentence.
        is_name = line.startswith(tuple(fixed_names))
        yield line if is_name else line[:1].upper() + line[1:]
    # The verdict of a study says which cell is best, not whether all came to the same result.
    if len(subject.groups) > 1:
        yield from describe_equality(subject)


def _list_remarks(subject: ReportSubject, *, is_warning: bool) -> Iterator[str]:
    """Yield the remarks on runs. Those that warn are alerts."""
    remarks = [remark for run in subject.runs for remark in run.remarks]
    remark_texts = [remark.text for remark in remarks if remark.is_warning is is_warning]
    yield from dict.fromkeys(remark_texts)


def _describe_start_loads(subject: ReportSubject) -> list[str]:
    """Return a line if others kept hosts busy as runs began; the table of all runs names the
    hosts."""
    runs = subject.runs
    start_loads = [run.start_load for run in runs if run.start_load]
    if len(runs) < 2 or not start_loads:
        return start_loads
    runs_text = f"{len(start_loads)} of {len(runs)} runs"
    return [f"{runs_text} began while others kept hosts busy: see {procedure.TITLE}"]


def _list_alerts(subject: ReportSubject) -> Iterator[str]:
    """Yield what makes the figures doubtful."""
    runs = subject.runs
    if subject.is_quick:
        yield QUICK
    if subject.study and subject.study.overrides:
        yield f"Set on the command line: {', '.join(subject.study.overrides)}"
    yield from describe_virtual_hosts(subject)
    yield from _limit_alerts([f"{run.name} {flaw.text}." for run in runs for flaw in run.flaws])
    yield from filter(None, [not_learned(loss_ends(runs))])
    yield from _limit_alerts(list(_list_failures(subject)))
    unended_runs = [run for run in runs if not run.verdict and not run.cause]
    yield from _limit_alerts(
        [f"{run.name} has not ended: this is what is known so far." for run in unended_runs]
    )
    yield from _list_remarks(subject, is_warning=True)


def _limit_alerts(alerts: list[str]) -> Iterator[str]:
    yield from alerts[:MOST_ALERTS]
    if len(alerts) > MOST_ALERTS:
        yield f"{len(alerts) - MOST_ALERTS} more like that: see {procedure.TITLE}."


def _list_failures(subject: ReportSubject) -> Iterator[str]:
    for group in subject.groups:
        for run in group.runs:
            if run.cause:
                yield f"{run.name} failed: {run.cause}."
        for failure in group.failures:
            trial_name = f"{group.label} #{failure.repetition}"
            yield f"{trial_name} failed: {failure.cause or UNKNOWN} ({failure.run})."


def _finish_sentence(text: str) -> str:
    sentence: str = shorten_paths(one_line(text))
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
