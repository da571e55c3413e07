"""What a person has noted at steps of the runs."""

from __future__ import annotations

from remote.record.step_notes import read_step_notes
from tui.report.document import Section, make_table
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table of all notes."""
    rows = [
        (run.name, str(note.step), note.text)
        for run in subject.runs
        for note in read_step_notes(run.folder)
    ]
    if not rows:
        return None
    return Section("notes", "Notes", [], [make_table("Notes", ("run", "step", "note"), rows)])
