"""The loss by steps and by time, and how long it takes to several targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from remote.format import UNKNOWN, fixed, number, percent
from remote.metrics.points import (
    Points,
    accuracy_by_time,
    evaluation_points,
    loss_by_step,
    loss_by_time,
)
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from remote.statistics.interval import Interval, hide_few, t_interval
from remote.statistics.steps import time_to_target
from tui.report.curves import STEP, CurvePicture, average_curve
from tui.report.document import ReportPicture, ReportTable, Section
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

MOST_CURVES = 7
"""Curves in a picture: more cannot be told apart."""
MOST_METRICS = 8
"""Metrics of scripts in a table, at most."""
TARGET_SHARES = (0.5, 0.75, 0.9)
"""How far on the way from the first loss to one that all groups reach further targets are."""
WINDOW = 5
"""Steps over which the loss is averaged, because that of one batch may be low by chance."""
LOSS_BY_STEP = CurvePicture("loss-by-step", "Training loss by step", STEP, "training loss")
LOSS_BY_TIME = CurvePicture("loss-by-time", "Training loss by time", "seconds", "training loss")
ACCURACY_BY_TIME = CurvePicture(
    "accuracy-by-time",
    "Test accuracy by time",
    "seconds",
    "test accuracy",
    format_value=partial(percent, decimals=1),
)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the pictures and the tables."""
    pictures = [
        *_picture(subject, LOSS_BY_STEP, loss_by_step),
        *_picture(subject, LOSS_BY_TIME, loss_by_time),
    ]
    if any(len(run.evaluations) > 1 for run in subject.runs):
        pictures += _picture(subject, ACCURACY_BY_TIME, accuracy_by_time)
    if not pictures:
        return None
    tables = [*_target_tables(subject), *_metric_tables(subject)]
    left_out = subject.describe_left_out(MOST_CURVES)
    return Section("training", "Training", left_out, tables, pictures)


def _picture(
    subject: ReportSubject, picture: CurvePicture, points_of: Callable[[RunFigures], Points]
) -> list[ReportPicture]:
    """Return the picture of the groups' curves, if there are some."""
    curves = []
    for group in subject.select_groups(MOST_CURVES):
        curve = average_curve(group.label, group.runs, points_of)
        if curve:
            curves.append(curve)
    return [picture.of(curves)] if curves else []


def _metric_tables(subject: ReportSubject) -> list[ReportTable]:
    """Return the table of what scripts report besides the loss, if they report something."""
    names = dict.fromkeys(metric.name for run in subject.runs for metric in run.metrics)
    names.pop("loss", None)
    shown = list(names)[:MOST_METRICS]
    if not shown:
        return []
    rows = []
    for group in subject.groups:
        rows.append((group.label, *(_mean_of_last(group.runs, name) for name in shown)))
    note = "The last value of each run; means over runs."
    return [ReportTable("What the program tells", ("cell", *shown), rows, note)]


def _mean_of_last(runs: Sequence[RunFigures], name: str) -> str:
    last_values = []
    for run in runs:
        values = [metric.value for metric in run.metrics if metric.name == name]
        last_values += values[-1:]
    return number(fmean(last_values)) if last_values else UNKNOWN


# Targets ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingTarget:
    """A value that training is to reach."""

    text: str
    value: float
    points_of: Callable[[RunFigures], Points]
    """Gives the curve of a run that is to reach it."""
    is_falling: bool
    window: int = 1


@dataclass(frozen=True)
class TargetTimes:
    """When the runs of a group reached a target."""

    seconds: Interval
    """Over the runs that did."""
    reached: int
    runs: int


def find_targets(subject: ReportSubject) -> list[TrainingTarget]:
    """Return training losses on the way to one that every group reaches, and the study's target.

    There are several, because one target alone misleads.
    """
    targets = []
    for value in _find_target_losses(subject):
        text = f"training loss {value:.4g}"
        targets.append(TrainingTarget(text, value, loss_by_time, True, WINDOW))
    if subject.target:
        metric, value = subject.target
        is_accuracy = metric == "accuracy"
        text = f"test {metric} {value:.1%}" if is_accuracy else f"test {metric} {value:g}"
        points_of = partial(evaluation_points, figure=metric, by_time=True)
        targets.append(TrainingTarget(text, value, points_of, not is_accuracy))
    return targets


def measure_target(group: RunGroup, target: TrainingTarget) -> TargetTimes:
    """Return when a group reached a target."""
    times = []
    for run in group.runs:
        seconds, values = target.points_of(run)
        time = time_to_target(seconds, values, target.value, target.is_falling, target.window)
        if math.isfinite(time):
            times.append(time)
    return TargetTimes(hide_few(t_interval(times)), len(times), len(group.runs))


def _find_target_losses(subject: ReportSubject) -> list[float]:
    """Return losses that are further and further from the first one; none if training did not get
    anywhere."""
    firsts = []
    lasts = []
    for group in subject.measured:
        ends = [_smoothed_ends(loss_by_step(run)[1]) for run in group.runs]
        known_ends = [pair for pair in ends if all(map(math.isfinite, pair))]
        if known_ends:
            firsts.append(min(first for first, _ in known_ends))
            lasts.append(max(least for _, least in known_ends))
    if not firsts or max(lasts) >= min(firsts):
        return []
    first = min(firsts)
    last = max(lasts)
    losses = [float(f"{first - (first - last) * share:.3g}") for share in TARGET_SHARES]
    # Rounded up, so that all groups reach it.
    losses.append(math.ceil(last * 1e3) / 1e3)
    return list(dict.fromkeys(losses))


def _smoothed_ends(losses: Floats) -> tuple[float, float]:
    """Return the first and the least mean of `WINDOW` losses; NaN if there are none."""
    if len(losses) < WINDOW:
        return math.nan, math.nan
    means = np.convolve(losses, np.ones(WINDOW) / WINDOW, "valid")
    least = float(np.nanmin(means)) if np.isfinite(means).any() else math.nan
    return float(means[0]), least


def _target_tables(subject: ReportSubject) -> list[ReportTable]:
    targets = find_targets(subject)
    # A quick study hardly trains.
    if not targets or subject.is_quick:
        return []
    rows = []
    for group in subject.measured:
        times = [_format_times(measure_target(group, target)) for target in targets]
        rows.append((group.label, *times))
    note = (
        f"Seconds of training until the loss, as the mean of {WINDOW} steps, is at or below the "
        "target; means over runs with 95% intervals."
    )
    head = ("cell", *(target.text for target in targets))
    return [ReportTable("Time to targets", head, rows, note)]


def _format_times(times: TargetTimes) -> str:
    if not times.reached:
        return "not reached" if times.runs else UNKNOWN
    seconds = times.seconds
    text = fixed(seconds.value, 2, " s")
    if math.isfinite(seconds.low):
        text += f" ({fixed(seconds.low, 2)} to {fixed(seconds.high, 2)})"
    if times.reached < times.runs:
        text += f", {times.reached} of {times.runs} runs"
    return text
