"""The sections of a chapter, one file each: `section` makes it, or says None where it has nothing
to say. Their order is that of `ALL`."""

from __future__ import annotations

from collections.abc import Callable

from tui.report.document import Section
from tui.report.numbers.timing import Timing
from tui.report.sections import (
    equality,
    machines,
    metric,
    network,
    nodes,
    phases,
    procedure,
    results,
    scaling,
    settings,
    testing,
    times,
    training,
    usage,
    waits,
    why,
)
from tui.report.subject import Subject

ALL: tuple[Callable[[Subject, Timing], Section | None], ...] = (
    results.section,
    settings.section,
    metric.section,
    why.section,
    times.section,
    scaling.section,
    network.section,
    phases.section,
    training.section,
    equality.section,
    nodes.section,
    testing.section,
    waits.section,
    usage.section,
    procedure.section,
    machines.section,
)
