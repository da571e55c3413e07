"""The losses of the runs of a study as curves: means of repetitions, and which of them coincide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from remote.format import listed
from remote.plan.serialize import OtherFormat
from remote.record.events_file import RunFolderError
from remote.record.loss_course import LossCourse, LossPoint, read_loss_points
from remote.run.run_state import RunState
from tui.charts.annotations import PointLabel
from tui.charts.overlay import MarkedCurves, make_level_line
from tui.charts.raster import Curve
from tui.kit.inks import LINE, REFERENCE, SERIES_INKS

LOSS_PLACES = 60
"""Places at which the loss of a run is read."""
HIDDEN = 0.002
"""Share of a loss by which curves differ that cannot be told apart."""
TEST_LOSS = "test loss"
TRAINING_LOSS = "training loss"


class ComparedRuns(NamedTuple):
    """Runs whose mean is a curve."""

    name: str
    runs: Sequence[str]


class LossComparison(NamedTuple):
    """The losses of compared runs as they are drawn: those that coincide are one line."""

    loss_name: str = TRAINING_LOSS
    curves: Sequence[Curve] = ()
    same_names: tuple[str, ...] = ()
    """What has the same losses everywhere, so that each curve is of another place."""


def read_comparison(
    runs_dir: Path,
    compared: Sequence[ComparedRuns],
    compared_by_place: Mapping[str, Sequence[ComparedRuns]],
) -> LossComparison:
    """Return the losses of these runs. If they coincide everywhere, return those of all places:
    what differs then is the place."""
    loss_name, curves = read_curves(runs_dir, compared)
    lines = join_coinciding(curves)
    comparison = LossComparison(loss_name, lines)
    if not len(lines) == 1 < len(curves):
        return comparison
    place_curves = []
    for place, runs in list(compared_by_place.items())[:SERIES_INKS]:
        place_loss_name, curves = read_curves(runs_dir, runs)
        joined = join_coinciding(curves)
        if len(joined) != 1 or place_loss_name != loss_name or joined[0].label != lines[0].label:
            return comparison
        place_curves.append(replace(joined[0], label=place))
    if len(place_curves) < 2:
        return comparison
    # The longest line has no gaps. A shorter one on it has, so that it hides nothing.
    place_lines = sorted(join_coinciding(place_curves), key=lambda line: -line.x[-1])
    inked_lines = [replace(line, colour=ink, dash=ink) for ink, line in enumerate(place_lines)]
    return LossComparison(loss_name, inked_lines, tuple(runs.name for runs in compared))


def join_coinciding(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves; those that would lie on each other are one, with all their labels."""
    groups: list[list[Curve]] = []
    for curve in curves:
        for group in groups:
            if do_coincide(group[0], curve):
                group.append(curve)
                break
        else:
            groups.append([curve])
    return [replace(group[0], label=join_labels(group)) for group in groups]


def join_labels(curves: Sequence[Curve]) -> str:
    """Return one label for curves that coincide: "ring, ddp (one line)"; of settings of which each
    has one more than the first, "batch 20 (also split by label)"."""
    first, *others = [curve.label for curve in curves]
    additions = [other.removeprefix(f"{first}, ") for other in others]
    if others and all(
        other == f"{first}, {more}" for other, more in zip(others, additions, strict=True)
    ):
        return f"{first} (also {listed(additions)})"
    return f"{', '.join([first, *others])} (one line)" if others else first


def do_coincide(curve: Curve, other: Curve) -> bool:
    """Return True if two curves cannot be told apart in a chart."""
    is_as_long = len(curve.mean) == len(other.mean)
    return is_as_long and np.allclose(curve.mean, other.mean, rtol=HIDDEN)


def read_curves(runs_dir: Path, compared: Sequence[ComparedRuns]) -> tuple[str, list[Curve]]:
    """Return which loss of these runs is known, and its means."""
    courses = list[list[LossCourse]]()
    for _, runs in compared[:SERIES_INKS]:
        courses.append([])
        for run in runs:
            with suppress(OtherFormat, RunFolderError):
                courses[-1].append(read_loss_points(runs_dir / run, LOSS_PLACES))
    # Tests are of the whole model; of the training, each place has other ranks and samples.
    is_tested = all(len(course.tests) > 1 for group in courses for course in group)
    curves = list[Curve]()
    for ink, (group, group_courses) in enumerate(zip(compared, courses, strict=False)):
        points = [course.tests if is_tested else course.training for course in group_courses]
        curve = make_mean_curve(group.name, ink, points)
        if curve:
            curves.append(curve)
    return TEST_LOSS if is_tested and curves else TRAINING_LOSS, curves


def make_mean_curve(name: str, ink: int, courses: Sequence[Sequence[LossPoint]]) -> Curve | None:
    """Return the mean of the losses of some runs, up to the last step of the shortest; None without
    two points."""
    # Of a short run, places overlap, so that a step comes several times.
    known = [dict(sorted(course)) for course in courses if course]
    if not known:
        return None
    last_step = min(max(course) for course in known)
    steps = np.array([step for step in known[0] if step <= last_step], float)
    if len(steps) < 2:
        return None
    losses = [np.interp(steps, list(course), list(course.values())) for course in known]
    mean = np.mean(losses, axis=0)
    dash = 0 if ink == LINE else ink
    return Curve(name, ink, steps, mean, mean, mean, band=False, dash=dash)


def make_own_curve(state: RunState, *, is_test: bool) -> Curve | None:
    """Return the losses of the run under way, of its tests or of its training; None without any."""
    if is_test:
        tests = [(test.step, test.loss) for test in state.progress.evaluations]
        return make_mean_curve("this run", LINE, [tests])
    losses = state.curves.whole("loss")
    if not len(losses.step):
        return None
    return Curve("this run", LINE, losses.step, losses.low, losses.high, losses.mean, band=False)


def make_guess_line(curves: Sequence[Curve], guess_loss: float) -> MarkedCurves:
    """Return a line with a name at the loss of guesses, as long as these curves; nothing if that
    loss is NaN."""
    if not curves or not math.isfinite(guess_loss):
        return MarkedCurves([])
    first_step = min(float(curve.x[0]) for curve in curves)
    last_step = max(float(curve.x[-1]) for curve in curves)
    label = PointLabel(last_step, guess_loss, f"guessing {guess_loss:.2f}", REFERENCE)
    return MarkedCurves([make_level_line(guess_loss, first_step, last_step)], (label,))
