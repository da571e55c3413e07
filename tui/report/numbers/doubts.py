"""Which comparisons of a subject show nothing, and why."""

from __future__ import annotations

from remote.metrics.doubt import Doubt
from tui.report.numbers.timing import Timing
from tui.report.subject import Subject


def doubts(subject: Subject, timed: Timing) -> list[Doubt]:
    """Return what is in doubt in the answer of a study and in the tables of its report, once for
    each two groups."""
    return list({one.pair: one for one in (*timed.doubts, *subject.doubts)}.values())
