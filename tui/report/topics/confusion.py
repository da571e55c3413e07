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
    report_texts = []
    for group in subject.select_groups():
        run = group.first_run
        if run is None or not run.evaluations:
            continue
        last_test = run.evaluations[-1]
        if any(map(any, last_test.confusion)):
            pictures.append(_make_confusion_picture(len(pictures) + 1, group, last_test))
            report_texts.append(_make_report_text(group, run, last_test))
    if not pictures:
        return None
    paragraphs = ["Of the last test of the first run of each cell.", *subject.describe_selected()]
    return Section("testing", "Test", paragraphs, (), pictures, report_texts)


def _make_confusion_picture(number: int, group: RunGroup, test: EvaluationFigures) -> ReportPicture:
    class_names = test.classes
    # A host sends both, and may send names for other classes.
    if len(class_names) != len(test.confusion):
        class_names = tuple(map(str, range(len(test.confusion))))
    draw_confusion = partial(
        draw_matrix,
        *(test.confusion, class_names, ("predicted class", "true class"), "{:.0f}".format),
        shades_rows_apart=True,  # a class with few images would be pale otherwise
    )
    title = f"Confusion matrix: {group.label}"
    return ReportPicture(f"confusion-{number}", title, class_names, draw_confusion)


def _make_report_text(group: RunGroup, run: RunFigures, test: EvaluationFigures) -> TextBlock:
    report = ClassificationReport.of(test.confusion, test.classes)
    report_lines = report.text().rstrip().splitlines()
    result_line = f"test loss {format_loss(test.loss)}, test accuracy {test.accuracy:.1%}"
    text_lines = [f"{run.name}: {result_line}", "", *report_lines]
    return TextBlock(f"Classification report: {group.label}", text_lines)
