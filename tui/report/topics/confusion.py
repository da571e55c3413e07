"""The last test: confusion matrix and classification report."""

from __future__ import annotations

from functools import partial

from remote.metrics.run import EvaluationFigures, RunFigures
from remote.record.classification import ClassificationReport
from training.formatting import format_loss
from tui.report.document import ReportPicture, Section, TextBlock
from tui.report.matrix import draw_matrix
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a picture and a report for each group whose test was counted by class."""
    pictures: list[ReportPicture] = []
    texts = []
    for group in subject.select_groups():
        run = group.first_run
        if run is None or not run.evaluations:
            continue
        test = run.evaluations[-1]
        if any(map(any, test.confusion)):
            pictures.append(_picture(len(pictures) + 1, group, test))
            texts.append(_text(group, run, test))
    if not pictures:
        return None
    paragraphs = ["Of the last test of the first run of each cell.", *subject.describe_selected()]
    return Section("testing", "Test", paragraphs, (), pictures, texts)


def _picture(number: int, group: RunGroup, test: EvaluationFigures) -> ReportPicture:
    names = test.classes
    if len(names) != len(test.confusion):
        names = tuple(map(str, range(len(test.confusion))))
    draw = partial(
        draw_matrix, test.confusion, names, ("predicted class", "true class"), "{:.0f}".format
    )
    title = f"Confusion matrix: {group.label}"
    return ReportPicture(f"confusion-{number}", title, names, draw)


def _text(group: RunGroup, run: RunFigures, test: EvaluationFigures) -> TextBlock:
    report = ClassificationReport.of(test.confusion, test.classes).text().rstrip().splitlines()
    head = f"test loss {format_loss(test.loss)}, test accuracy {test.accuracy:.2%}"
    lines = [f"{run.name}: {head}", "", *report]
    return TextBlock(f"Classification report: {group.label}", lines)
