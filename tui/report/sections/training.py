"""How the loss falls, by steps and by time, and how long it takes to several targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from remote.format import UNKNOWN, fixed, number, percent
from remote.metrics.points import Points, accuracy_by_time, loss_by_step, loss_by_time
from remote.metrics.run import RunFigures
from tui.report.document import Picture, Section, Table
from tui.report.numbers.curves import Curve, curve
from tui.report.numbers.targets import Reached, reached, targets
from tui.report.numbers.timing import Timing
from tui.report.pictures import lines
from tui.report.subject import Subject

MOST = 7
"""Curves in a picture: more cannot be told apart."""
METRICS = 8
"""Values of a user's own program in a table, at most."""


def section(subject: Subject, timing: Timing) -> Section | None:
    """The pictures and the table."""
    pictures = _pictures(subject)
    if not pictures:
        return None
    return Section("training", "Training", subject.selection(MOST), _tables(subject), pictures)


def _tables(subject: Subject) -> list[Table]:
    """Time to targets, and what programs of users' own tell besides the loss."""
    return [*_targets(subject), *_told(subject)]


def _told(subject: Subject) -> list[Table]:
    names = list(dict.fromkeys(one.name for run in subject.runs for one in run.metrics))
    names = [name for name in names if name != "loss"][:METRICS]
    if not names:
        return []
    rows = [(group.label, *(_last(group.all, name) for name in names)) for group in subject.groups]
    note = "The last value of each run; means over runs."
    return [Table("What the program tells", ("cell", *names), rows, note)]


def _last(runs: Sequence[RunFigures], name: str) -> str:
    told = [[one.value for one in run.metrics if one.name == name] for run in runs]
    values = [values[-1] for values in told if values]
    return number(fmean(values)) if values else UNKNOWN


def _pictures(subject: Subject) -> list[Picture]:
    found = []
    for name, title, across, points in (
        ("loss-by-step", "Training loss by step", lines.STEP, loss_by_step),
        ("loss-by-time", "Training loss by time", "seconds", loss_by_time),
    ):
        curves = _curves(subject, points)
        if curves:
            found.append(lines.picture(name, title, across, "training loss", curves))
    if any(len(run.evaluations) > 1 for run in subject.runs):
        curves = _curves(subject, accuracy_by_time)
        title, percents = "Test accuracy by time", lambda value: percent(value, 1)
        found.append(
            lines.picture("accuracy-by-time", title, "seconds", "test accuracy", curves, percents)
        )
    return found


def _curves(subject: Subject, points: Callable[[RunFigures], Points]) -> list[Curve]:
    groups = subject.shown(MOST)
    return [one for group in groups if (one := curve(group.label, group.all, points))]


def _targets(subject: Subject) -> list[Table]:
    goals = targets(subject)
    if not goals or subject.is_quick:  # which hardly trains
        return []
    rows = [
        (group.label, *(_written(reached(group, goal)) for goal in goals))
        for group in subject.measured
    ]
    note = (
        "Seconds of training until the loss, as the mean of 5 steps, is at or below the target; "
        "means over runs with 95% intervals."
    )
    return [Table("Time to targets", ("cell", *(goal.text for goal in goals)), rows, note)]


def _written(found: Reached) -> str:
    if not found.reached:
        return "not reached" if found.runs else UNKNOWN
    time = found.seconds
    text = fixed(time.value, 2, " s")
    if math.isfinite(time.low):
        text += f" ({fixed(time.low, 2)} to {fixed(time.high, 2)})"
    return text if found.reached == found.runs else f"{text}, {found.reached} of {found.runs} runs"
