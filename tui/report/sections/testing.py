"""The last test: confusion matrix and classification report."""

from __future__ import annotations

from remote.format import count
from remote.metrics.run import Evaluation, RunFigures
from remote.record.classification import Report
from training import figures
from tui.report.document import Picture, Section, Text
from tui.report.numbers.timing import Timing
from tui.report.pictures import matrix
from tui.report.subject import Group, Subject

MOST = 6
"""Groups that are shown."""


def section(subject: Subject, timing: Timing) -> Section | None:
    """A picture and a report for each group of which the test was counted by class."""
    found = [(group, run, run.evaluations[-1]) for group, run in _runs(subject)]
    found = [one for one in found if any(map(any, one[2].confusion))]
    if not found:
        return None
    says = ["Of the last test of the first run of each cell."] if len(subject.groups) > 1 else []
    return Section(
        "testing",
        "Test",
        [*says, *subject.selection(MOST)],
        (),
        [_picture(at, group, test) for at, (group, _, test) in enumerate(found)],
        [_text(group, run, test) for group, run, test in found],
    )


def _runs(subject: Subject) -> list[tuple[Group, RunFigures]]:
    return [
        (group, group.first)
        for group in subject.shown(MOST)
        if group.first and group.first.evaluations
    ]


def _picture(at: int, group: Group, test: Evaluation) -> Picture:
    names = _names(test)
    rows = test.confusion
    best, worst = (
        pick((row[place] / sum(row), names[place]) for place, row in enumerate(rows) if any(row))
        for pick in (max, min)
    )
    alt = (
        f"Confusion matrix of {group.label}: {test.accuracy:.1%} of {count(test.samples, 'image')} "
        f"are right. Best is class {best[1]} with {best[0]:.1%}, worst class {worst[1]} with "
        f"{worst[0]:.1%}."
    )
    return matrix.picture(
        f"confusion-{at + 1}",
        f"Confusion matrix: {group.label}",
        alt,
        rows,
        names,
        ("predicted class", "true class"),
        lambda value: f"{value:.0f}",
    )


def _text(group: Group, run: RunFigures, test: Evaluation) -> Text:
    report = Report.of(test.confusion, test.classes).text().rstrip().splitlines()
    head = f"test loss {figures.loss(test.loss)}, test accuracy {test.accuracy:.2%}"
    return Text(f"Classification report: {group.label}", [f"{run.name}: {head}", "", *report])


def _names(test: Evaluation) -> list[str]:
    count = len(test.confusion)
    return [*test.classes] if len(test.classes) == count else list(map(str, range(count)))
