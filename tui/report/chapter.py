"""A chapter: all that is said of one subject."""

from __future__ import annotations

from collections.abc import Iterator

from remote.format import UNKNOWN, duration, seconds
from remote.metrics.doubt import sentences
from remote.metrics.run import RunFigures
from remote.run.state.progress import not_learned
from remote.sanitise import one_line
from tui.report import text
from tui.report.document import Chapter
from tui.report.numbers import learning, machines
from tui.report.numbers.doubts import doubts
from tui.report.numbers.timing import Timing, timing
from tui.report.sections import ALL, equality, procedure
from tui.report.subject import Subject

MOST = 4
"""Alerts of one kind."""


def chapter(subject: Subject) -> Chapter:
    """The chapter of a subject."""
    timed = timing(subject)
    made = [section for make in ALL if (section := make(subject, timed))]
    return Chapter(
        one_line(subject.name),
        one_line(subject.heading),
        one_line(subject.question),
        list(map(one_line, _verdict(subject, timed))),
        list(dict.fromkeys(map(one_line, _alerts(subject)))),
        [section.fitted() for section in made],
        list(map(one_line, sentences(doubts(subject, timed)))),
    )


def _verdict(subject: Subject, timed: Timing) -> Iterator[str]:
    """What came out, and whether all trained the same."""
    names = [name.split(", ")[0] for one in subject.groups for name in (one.label, one.line)]
    names += [host.name for run in subject.runs for host in run.hosts]
    lines = list(subject.verdict)
    if subject.is_study:
        remarks = [remark for run in subject.runs for remark in run.remarks]
        lines += dict.fromkeys(remark.text for remark in remarks if not remark.is_warning)
    for said in (said for line in lines for said in line.split("; ")):
        is_name = said.startswith(tuple(names))
        yield _sentence(said if is_name else said[:1].upper() + said[1:])
    if len(subject.groups) > 1:
        yield from map(_sentence, equality.sentences(subject))
    elif subject.runs and not subject.verdict:
        yield _sentence(_single(subject, timed))


def _single(subject: Subject, timed: Timing) -> str:
    """What became of a single run."""
    run = subject.runs[0]
    verdict = run.verdict.name.capitalize() if run.verdict else "Not ended"
    said = [f"{verdict} after {duration(run.elapsed)}"]
    if timed.rows:
        said.append(f"{seconds(timed.rows[0].seconds.value)} s per iteration")
    if run.evaluations:
        test = run.evaluations[-1]
        said.append(f"test loss {text.final(test.loss, False)}")
        said.append(f"test accuracy {text.final(test.accuracy, True)}")
    elif len(run.steps):
        said.append(f"training loss {text.final(run.final_loss(), False)}")
    return f"{', '.join(said)}: {run.what}"


def _alerts(subject: Subject) -> Iterator[str]:
    """What makes the figures doubtful."""
    if subject.is_quick:
        yield (
            "This is the quick variant of the study: its models have hardly trained, so it says "
            "little about losses and accuracies."
        )
    if subject.given:
        yield _sentence(f"{subject.given[0].upper()}{subject.given[1:]}")
    yield from machines.sentences(subject)
    for alerts in (
        [f"{run.name} diverged: {run.diverged}." for run in subject.runs if run.diverged],
        [*_risen(subject)],
        [*_failures(subject)],
        [f"{run.name} has not ended: this is what is known so far." for run in _open(subject)],
    ):
        yield from alerts[:MOST]
        if len(alerts) > MOST:
            yield f"{len(alerts) - MOST} more like that: see {procedure.TITLE}."
    for run in subject.runs:
        yield from (_sentence(remark.text) for remark in run.remarks if remark.is_warning)


def _failures(subject: Subject) -> Iterator[str]:
    for group in subject.groups:
        for run in group.all:
            if run.cause:
                yield f"{run.name} failed: {run.cause}."
        for failure in group.failures:
            what = f"{group.label} #{failure.repetition}"
            yield f"{what} failed: {failure.cause or UNKNOWN} ({failure.run})."
        if subject.is_study and not group.runs and not group.failures:
            yield f"{group.label} has no run that counts: it is {group.state}."


def _open(subject: Subject) -> Iterator[RunFigures]:
    return (run for run in subject.runs if not run.verdict and not run.cause)


def _risen(subject: Subject) -> Iterator[str]:
    """Which runs did not learn, in one sentence."""
    ends = [(run.name, *found) for run in subject.runs if (found := learning.ends(run))]
    said = not_learned(ends)
    if said:
        yield _sentence(said)


def _sentence(said: str) -> str:
    return said if said.endswith((".", "!", "?")) else f"{said}."
