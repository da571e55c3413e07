"""Whether groups end with the same loss and accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from remote.metrics.run import RunFigures
from remote.statistics.equivalence import Equivalence, equivalence
from remote.statistics.interval import Interval, Scale, interval, known
from tui.report.subject import Group, Subject


@dataclass(frozen=True)
class Measure:
    """A final value of a run."""

    name: str
    of: Callable[[RunFigures], float]
    is_share: bool = False


@dataclass(frozen=True)
class Equality:
    """The final values of a group, and how they compare with those of its reference; None where
    there is none."""

    group: Group
    value: Interval
    against: Equivalence | None
    reference: str = ""


def _test(name: str) -> Callable[[RunFigures], float]:
    return lambda run: getattr(run.evaluations[-1], name) if run.evaluations else math.nan


MEASURES = (
    Measure("training loss", lambda run: run.final_loss()),
    Measure("test loss", _test("loss")),
    Measure("test accuracy", _test("accuracy"), is_share=True),
)


def equality(subject: Subject, measure: Measure) -> list[Equality]:
    """Compare the groups of a subject that have this value. A run that is no study is compared with
    the first one."""
    found = []
    for at, group in enumerate(subject.groups):
        values = [measure.of(run) for run in group.all]
        if not np.isfinite(values).any():
            continue
        other = subject.references[at]
        reference = subject.groups[other] if other is not None else None
        against = _compared(group, reference, measure) if reference and reference.runs else None
        found.append(
            Equality(
                group,
                known(interval(values, Scale.DIFFERENCE)),
                against,
                reference.label if reference else "",
            )
        )
    return found


def _compared(group: Group, reference: Group, measure: Measure) -> Equivalence:
    """Compare repetition by repetition: they share their seed."""
    numbers = sorted({*group.runs, *reference.runs})
    first, second = (
        [measure.of(one.runs[number]) if number in one.runs else math.nan for number in numbers]
        for one in (group, reference)
    )
    found = equivalence(first, second)
    return replace(found, difference=known(found.difference))
