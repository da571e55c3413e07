"""The loss by steps and by time, and how long it takes to several targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from remote.format import UNKNOWN, fixed, number
from remote.metrics.points import (
    Points,
    accuracy_by_time,
    evaluation_points,
    loss_by_step,
    loss_by_time,
)
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from remote.statistics.interval import hide_few, t_interval
from remote.statistics.steps import time_to_target
from tui.report.curves import STEP, CurvePicture, average_curve
from tui.report.document import ReportPicture, ReportTable, Section, make_table
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

MOST_METRICS = 8
"""Metrics of scripts in a table, at most."""
TARGET_SHARES = (0.5, 0.75, 0.9)
"""How far on the way from the first loss to one that all groups reach further targets are."""
WINDOW = 5
"""Steps over which the loss is averaged, because that of one batch may be low by chance."""
LOSS_BY_STEP = CurvePicture("loss-by-step", "Training loss by step", STEP, "training loss")
LOSS_BY_TIME = CurvePicture("loss-by-time", "Training loss by time", "seconds", "training loss")
ACCURACY_BY_TIME = CurvePicture(
    "accuracy-by-time", "Test accuracy by time", "seconds", "test accuracy"
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
    return Section("training", "Training", subject.describe_selected(), tables, pictures)


def _picture(
    subject: ReportSubject, picture: CurvePicture, points_of: Callable[[RunFigures], Points]
) -> list[ReportPicture]:
    """Return the picture of the groups' curves, if there are some."""
    curves = []
    for group in subject.select_groups():
        curve = average_curve(group.label, list(map(points_of, group.runs)))
        if curve:
            curves.append(curve)
    return [picture.of(curves)] if curves else []


def _metric_tables(subject: ReportSubject) -> list[ReportTable]:
    """Return the table of what scripts report besides the loss, if they report something."""
    metric_names = dict.fromkeys(metric.name for run in subject.runs for metric in run.metrics)
    metric_names.pop("loss", None)
    shown_names = list(metric_names)[:MOST_METRICS]
    if not shown_names:
        return []
    rows = []
    for group in subject.groups:
        rows.append((group.label, *(_mean_of_last(group.runs, name) for name in shown_names)))
    note = "The last value of each run; means over runs."
    return [make_table("What the program tells", ("cell", *shown_names), rows, note)]


def _mean_of_last(runs: Sequence[RunFigures], metric_name: str) -> str:
    last_values = []
    for run in runs:
        run_values = [metric.value for metric in run.metrics if metric.name == metric_name]
        # A run may lack the metric: the slice is empty then.
        last_values += run_values[-1:]
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


def find_targets(subject: ReportSubject) -> list[TrainingTarget]:
    """Return training losses on the way to one that every group reaches, and the study's target.

    There are several, because one target alone misleads.
    """
    training_targets = []
    for value in _find_target_losses(subject):
        target_text = f"training loss {value:.4g}"
        training_targets.append(TrainingTarget(target_text, value, loss_by_time, True, WINDOW))
    target = subject.study.target if subject.study else None
    if target:
        points_of = partial(evaluation_points, figure=target.metric, by_time=True)
        is_falling = target.metric == "loss"
        training_targets.append(TrainingTarget(target.text(), target.value, points_of, is_falling))
    return training_targets


def measure_target(group: RunGroup, target: TrainingTarget) -> list[float]:
    """Return when runs of a group reached a target, of those that did."""
    reach_times = []
    for run in group.runs:
        seconds, values = target.points_of(run)
        reach_times.append(
            time_to_target(seconds, values, target.value, target.is_falling, target.window)
        )
    return list(filter(math.isfinite, reach_times))


def _find_target_losses(subject: ReportSubject) -> list[float]:
    """Return losses that are further and further from the first one; none if training did not get
    anywhere."""
    first_losses = []
    least_losses = []
    for group in subject.measured:
        loss_ends = [_smoothed_ends(loss_by_step(run)[1]) for run in group.runs]
        known_ends = [pair for pair in loss_ends if all(map(math.isfinite, pair))]
        if known_ends:
            # No run of the group begins below the one, or stays above the other: all of them pass
            # the losses in between.
            first_losses.append(min(highest_loss for highest_loss, _ in known_ends))
            least_losses.append(max(least for _, least in known_ends))
    if not first_losses or max(least_losses) >= min(first_losses):
        return []
    highest_loss = min(first_losses)
    lowest_loss = max(least_losses)
    target_losses = [
        float(f"{highest_loss - (highest_loss - lowest_loss) * share:.3g}")
        for share in TARGET_SHARES
    ]
    # Rounded up, so that all groups reach it.
    target_losses.append(math.ceil(lowest_loss * 1e3) / 1e3)
    # Rounded, two of them may be the same.
    return list(dict.fromkeys(target_losses))


def _smoothed_ends(losses: Floats) -> tuple[float, float]:
    """Return the first and the least mean of `WINDOW` losses; NaN if there are none."""
    if len(losses) < WINDOW:
        return math.nan, math.nan
    smoothed_losses = np.convolve(losses, np.ones(WINDOW) / WINDOW, "valid")
    least_mean = math.nan
    # Of NaN alone, numpy would warn.
    if np.isfinite(smoothed_losses).any():
        least_mean = float(np.nanmin(smoothed_losses))
    return float(smoothed_losses[0]), least_mean


def _target_tables(subject: ReportSubject) -> list[ReportTable]:
    targets = find_targets(subject)
    # A quick study hardly trains.
    if not targets or subject.is_quick:
        return []
    rows = []
    for group in subject.measured:
        time_texts = [_format_times(group, target) for target in targets]
        rows.append((group.label, *time_texts))
    note = (
        f"Seconds of training until the loss, as the mean of {WINDOW} steps, is at or below the "
        "target; means over runs with 95% intervals."
    )
    table_head = ("cell", *(target.text for target in targets))
    return [make_table("Time to targets", table_head, rows, note)]


def _format_times(group: RunGroup, target: TrainingTarget) -> str:
    reach_times = measure_target(group, target)
    if not reach_times:
        return "not reached"
    mean_time = hide_few(t_interval(reach_times))
    times_text = fixed(mean_time.value, 2, " s")
    if math.isfinite(mean_time.low):
        times_text += f" ({fixed(mean_time.low, 2)} to {fixed(mean_time.high, 2)})"
    if len(reach_times) < len(group.runs):
        times_text += f", {len(reach_times)} of {len(group.runs)} runs"
    return times_text
