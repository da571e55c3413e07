"""A chapter: all that is said of one subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from remote.figures.run import RunFigures
from remote.figures.steps import Floats
from remote.format import UNKNOWN, duration, seconds
from tui.report import text
from tui.report.document import Chapter
from tui.report.numbers.timing import Timing, timing
from tui.report.sections import ALL, equality
from tui.report.subject import Subject

HARMLESS = tuple("0123456789")
"""How a remark begins that makes no figure doubtful: that on the cost of checkpoints."""
RISEN = 2.0
"""How many times the first loss a last one is that has risen."""


def chapter(subject: Subject) -> Chapter:
    """The chapter of a subject."""
    timed = timing(subject)
    made = [section for make in ALL if (section := make(subject, timed))]
    sections = [replace(one, tables=[table.fitted() for table in one.tables]) for one in made]
    return Chapter(
        subject.name,
        subject.title,
        subject.question,
        list(_verdict(subject, timed)),
        list(dict.fromkeys(_alerts(subject))),
        sections,
    )


def _verdict(subject: Subject, timed: Timing) -> Iterator[str]:
    """What came out, and whether all trained the same."""
    yield from map(_sentence, subject.verdict)
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
    for group in subject.groups:
        for run in group.all:
            if run.diverged:
                yield f"{group.label} diverged: {run.diverged} ({run.name})."
            elif _has_risen(run):
                yield (
                    f"{group.label} did not learn: its training loss rose from "
                    f"{text.final(_losses(run)[0], False)} to "
                    f"{text.final(run.final_loss(), False)} ({run.name})."
                )
            if run.cause:
                yield f"{group.label} failed: {run.cause} ({run.name})."
            elif not run.verdict:
                yield f"{group.label} has not ended: its record is that so far ({run.name})."
        for failure in group.failures:
            yield f"{failure.what} failed: {failure.cause or UNKNOWN} ({failure.run})."
        if subject.is_study and not group.runs:
            yield f"{group.label} has no run that counts: it is {group.state}."
    for run in subject.runs:
        yield from (_sentence(one) for one in run.remarks if not one.startswith(HARMLESS))
    yield from map(_sentence, subject.remarks)


def _losses(run: RunFigures) -> Floats:
    return run.steps.mean_over_ranks("loss")[1]


def _has_risen(run: RunFigures) -> bool:
    losses = _losses(run)
    return bool(losses.size) and run.final_loss() > RISEN * float(losses[0])


def _sentence(said: str) -> str:
    return said if said.endswith((".", "!", "?")) else f"{said}."
