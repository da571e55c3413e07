"""The metric that a study compares, if that is not the time of a step."""

from __future__ import annotations

from tui.report.document import Section, make_table
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming
from tui.study.cell_table import make_cell_table

NOTE = (
    "This is what the study compares, with 95% intervals. All comparisons together are one family: "
    "of studies without any difference, 5% report one."
)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table that the study itself shows; None if the time of a step is compared."""
    if subject.result is None or subject.result.study.metric == "step_seconds":
        return None
    metric_text = subject.result.study.measured
    section_title = f"{metric_text[:1].upper()}{metric_text[1:]} compared"
    cell_table = make_cell_table(subject.result)
    return Section(
        "metric",
        section_title,
        (),
        [make_table(section_title, cell_table.head, cell_table.rows, NOTE)],
    )
