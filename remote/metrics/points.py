"""Curves of a run: its losses and accuracies, by step or by time."""

from __future__ import annotations

import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats

Points = tuple[Floats, Floats]
"""Where the points of a curve lie, in order, and their values."""


def training_points(run: RunFigures, figure: str, *, by_time: bool) -> Points:
    """Return a figure of the steps, as means over ranks, by step or by seconds since the first step
    began."""
    if figure == "loss":
        loss_steps, times, losses = run.loss_course()
        return (times if by_time else loss_steps), losses
    steps, values = run.steps.mean_over_ranks(figure)
    if by_time:
        return run.steps.mean_over_ranks("time")[1], values
    return steps.astype(float), values


def evaluation_points(run: RunFigures, figure: str, *, by_time: bool) -> Points:
    """Return the `loss` or the `accuracy` of the tests along the same."""
    x_values = [test.time if by_time else test.step for test in run.evaluations]
    test_values = [getattr(test, figure) for test in run.evaluations]
    return np.array(x_values, dtype=float), np.array(test_values)


def loss_by_step(run: RunFigures) -> Points:
    """Return the training loss by step."""
    return training_points(run, "loss", by_time=False)


def loss_by_time(run: RunFigures) -> Points:
    """Return the training loss by time."""
    return training_points(run, "loss", by_time=True)


def accuracy_by_time(run: RunFigures) -> Points:
    """Return the test accuracy by time."""
    return evaluation_points(run, "accuracy", by_time=True)
