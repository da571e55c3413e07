"""How long groups took to several targets. One target alone misleads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from remote.metrics.points import Points, loss_by_step, loss_by_time, tested
from remote.metrics.run import RunFigures
from remote.statistics.interval import Interval, by_t, known
from remote.statistics.steps import time_to_target
from tui.report.subject import Group, Subject

PARTS = (0.5, 0.75, 0.9, 1.0)
"""How far the way from the first loss to one that all groups reach each target is."""
WINDOW = 5
"""Steps over which the loss is averaged, because that of one batch may be low by chance."""


@dataclass(frozen=True)
class Target:
    """A value to reach: `text` says it, `points` is the curve of a run that is to reach it."""

    text: str
    value: float
    points: Callable[[RunFigures], Points]
    falling: bool
    window: int = 1


@dataclass(frozen=True)
class Reached:
    """When the runs of a group reached a target: seconds over those that did; how many did, of how
    many."""

    seconds: Interval
    reached: int
    runs: int


def targets(subject: Subject) -> list[Target]:
    """Training losses on the way to one that every group reaches, and the study's own target."""
    found = [
        Target(f"training loss {value:.4g}", value, loss_by_time, True, WINDOW)
        for value in _losses(subject)
    ]
    if subject.target:
        metric, value = subject.target
        text = f"test {metric} " + (f"{value:.1%}" if metric == "accuracy" else f"{value:g}")
        points = partial(tested, figure=metric, clock=True)
        found.append(Target(text, value, points, metric != "accuracy"))
    return found


def reached(group: Group, target: Target) -> Reached:
    """When a group reached a target."""
    times = [
        time_to_target(*target.points(run), target.value, target.falling, target.window)
        for run in group.all
    ]
    finite = [one for one in times if math.isfinite(one)]
    return Reached(known(by_t(finite)), len(finite), len(times))


def _losses(subject: Subject) -> Sequence[float]:
    """Losses that are further and further from the first one; none where training did not get
    anywhere."""
    firsts = []
    lasts = []
    for group in subject.measured:
        means = [_ends(loss_by_step(run)[1]) for run in group.all]
        known = [one for one in means if all(map(math.isfinite, one))]
        if known:
            firsts.append(min(first for first, _ in known))
            lasts.append(max(least for _, least in known))
    if not firsts or max(lasts) >= min(firsts):
        return ()
    first = min(firsts)
    last = max(lasts)
    values = [float(f"{first - (first - last) * part:.3g}") for part in PARTS[:-1]]
    return list(dict.fromkeys([*values, math.ceil(last * 1e3) / 1e3]))


def _ends(losses: np.ndarray) -> tuple[float, float]:
    """The first and the least mean of `WINDOW` losses."""
    if len(losses) < WINDOW:
        return math.nan, math.nan
    means = np.convolve(losses, np.ones(WINDOW) / WINDOW, "valid")
    return float(means[0]), float(np.nanmin(means)) if np.isfinite(means).any() else math.nan
