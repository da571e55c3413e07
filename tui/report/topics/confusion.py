"""The last test: confusion matrix and classification report."""

from __future__ import annotations

from remote.format import count
from remote.metrics.run import EvaluationFigures, RunFigures
from remote.record.classification import ClassificationReport
from training.formatting import format_loss
from tui.report.document import ReportPicture, Section, TextBlock
from tui.report.matrix import MatrixDrawing
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

MOST_GROUPS = 6


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a picture and a report for each group whose test was counted by class."""
    pictures: list[ReportPicture] = []
    texts = []
    for group in subject.select_groups(MOST_GROUPS):
        run = group.first_run
        if run is None or not run.evaluations:
            continue
        test = run.evaluations[-1]
        if any(map(any, test.confusion)):
            pictures.append(_picture(len(pictures) + 1, group, test))
            texts.append(_text(group, run, test))
    if not pictures:
        return None
    paragraphs = subject.describe_left_out(MOST_GROUPS)
    if len(subject.groups) > 1:
        paragraphs.insert(0, "Of the last test of the first run of each cell.")
    return Section("testing", "Test", paragraphs, (), pictures, texts)


def _picture(number: int, group: RunGroup, test: EvaluationFigures) -> ReportPicture:
    names = _class_names(test)
    shares = []
    for index, row in enumerate(test.confusion):
        if any(row):
            shares.append((row[index] / sum(row), names[index]))
    best_share, best = max(shares)
    worst_share, worst = min(shares)
    alt = (
        f"Confusion matrix of {group.label}: {test.accuracy:.1%} of {count(test.samples, 'image')} "
        f"are right. Best is class {best} with {best_share:.1%}, worst class {worst} with "
        f"{worst_share:.1%}."
    )
    matrix = MatrixDrawing(
        test.confusion, names, "predicted class", "true class", lambda value: f"{value:.0f}"
    )
    title = f"Confusion matrix: {group.label}"
    return ReportPicture(f"confusion-{number}", title, alt, matrix.draw)


def _text(group: RunGroup, run: RunFigures, test: EvaluationFigures) -> TextBlock:
    report = ClassificationReport.of(test.confusion, test.classes).text().rstrip().splitlines()
    head = f"test loss {format_loss(test.loss)}, test accuracy {test.accuracy:.2%}"
    lines = [f"{run.name}: {head}", "", *report]
    return TextBlock(f"Classification report: {group.label}", lines)


def _class_names(test: EvaluationFigures) -> list[str]:
    classes = len(test.confusion)
    if len(test.classes) == classes:
        return list(test.classes)
    return [str(number) for number in range(classes)]
