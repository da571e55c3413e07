"""The topics of a chapter, one module each. `make_section` computes, draws and says all of a topic,
and returns None if there is nothing to say. `SECTIONS` has their order."""

from __future__ import annotations

from collections.abc import Callable

from tui.report.document import Section
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming
from tui.report.topics import (
    confusion,
    final_values,
    machines,
    network,
    notes,
    phases,
    procedure,
    rank_times,
    results,
    scaling,
    settings,
    step_times,
    study_metric,
    training,
    usage,
    waits,
)

SECTIONS: tuple[Callable[[ReportSubject, SubjectTiming], Section | None], ...] = (
    results.make_section,
    settings.make_section,
    study_metric.make_section,
    step_times.make_section,
    scaling.make_section,
    network.make_section,
    phases.make_section,
    training.make_section,
    final_values.make_section,
    rank_times.make_section,
    confusion.make_section,
    notes.make_section,
    waits.make_section,
    usage.make_section,
    procedure.make_section,
    machines.make_section,
)
