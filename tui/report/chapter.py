"""A chapter: all that is said of one subject."""

from __future__ import annotations

from collections.abc import Iterator

from remote.format import UNKNOWN, duration, seconds
from remote.metrics.doubt import sentences
from remote.run.state.progress import not_learned
from remote.sanitise import one_line
from tui.report.document import Chapter
from tui.report.formatting import format_final
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming, find_doubts, measure_timing
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
    verdict = map(_finish_sentence, _verdict(subject, timing))
    alerts = dict.fromkeys(map(_finish_sentence, _alerts(subject)))
    return Chapter(
        one_line(subject.name),
        one_line(subject.heading),
        one_line(subject.question),
        [one_line(line) for line in verdict],
        [one_line(line) for line in alerts],
        [section.sanitised() for section in sections if section],
        [one_line(line) for line in sentences(find_doubts(subject, timing))],
    )


def _verdict(subject: ReportSubject, timing: SubjectTiming) -> Iterator[str]:
    """Yield what came out, and whether all trained the same."""
    names = _list_names(subject)
    # An answer has several clauses, each of which is a line here.
    for line in _answers(subject):
        for clause in line.split("; "):
            is_name = clause.startswith(names)
            yield clause if is_name else clause[:1].upper() + clause[1:]
    if len(subject.groups) > 1:
        yield from describe_equality(subject)
    elif subject.runs and not subject.verdict:
        yield _describe_single_run(subject, timing)


def _list_names(subject: ReportSubject) -> tuple[str, ...]:
    """Return names of cells and hosts, which keep their first letter small in a sentence."""
    names = [host.name for run in subject.runs for host in run.hosts]
    for group in subject.groups:
        names.append(group.label.split(", ")[0])
        names.append(group.line.split(", ")[0])
    return tuple(names)


def _answers(subject: ReportSubject) -> list[str]:
    """Return the verdict of the subject, and of a study what is worth knowing of its runs."""
    lines = list(subject.verdict)
    if subject.is_study:
        remarks = [remark for run in subject.runs for remark in run.remarks]
        # Remarks that warn are alerts.
        lines += dict.fromkeys(remark.text for remark in remarks if not remark.is_warning)
    return lines


def _describe_single_run(subject: ReportSubject, timing: SubjectTiming) -> str:
    """Return what became of a single run."""
    run = subject.runs[0]
    verdict = run.verdict.name.capitalize() if run.verdict else "Not ended"
    parts = [f"{verdict} after {duration(run.elapsed)}"]
    if timing.rows:
        parts.append(f"{seconds(timing.rows[0].seconds.value)} s per iteration")
    if run.evaluations:
        test = run.evaluations[-1]
        parts.append(f"test loss {format_final(test.loss, is_share=False)}")
        parts.append(f"test accuracy {format_final(test.accuracy, is_share=True)}")
    elif len(run.steps):
        parts.append(f"training loss {format_final(run.final_loss(), is_share=False)}")
    return f"{', '.join(parts)}: {run.description}"


def _alerts(subject: ReportSubject) -> Iterator[str]:
    """Yield what makes the figures doubtful."""
    runs = subject.runs
    if subject.is_quick:
        yield QUICK
    if subject.given:
        yield subject.given[0].upper() + subject.given[1:]
    yield from describe_virtual_hosts(subject)
    diverged = [run for run in runs if run.diverged]
    yield from _limit([f"{run.name} diverged: {run.diverged}." for run in diverged])
    yield from filter(None, [not_learned(loss_ends(runs))])
    yield from _limit(list(_failures(subject)))
    unended = [run for run in runs if not run.verdict and not run.cause]
    yield from _limit(
        [f"{run.name} has not ended: this is what is known so far." for run in unended]
    )
    for run in runs:
        yield from (remark.text for remark in run.remarks if remark.is_warning)


def _limit(alerts: list[str]) -> Iterator[str]:
    yield from alerts[:MOST_ALERTS]
    if len(alerts) > MOST_ALERTS:
        yield f"{len(alerts) - MOST_ALERTS} more like that: see {procedure.TITLE}."


def _failures(subject: ReportSubject) -> Iterator[str]:
    for group in subject.groups:
        for run in group.runs:
            if run.cause:
                yield f"{run.name} failed: {run.cause}."
        for failure in group.failures:
            trial = f"{group.label} #{failure.repetition}"
            yield f"{trial} failed: {failure.cause or UNKNOWN} ({failure.run})."
        if subject.is_study and not group.by_repetition and not group.failures:
            yield f"{group.label} has no run that counts: it is {group.state}."


def _finish_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
