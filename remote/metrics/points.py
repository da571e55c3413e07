"""The curves of a run: its losses and accuracies, by step or by time."""

from __future__ import annotations

import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats

Points = tuple[Floats, Floats]
"""Where the points of a curve lie, in order, and their values."""


def trained(run: RunFigures, figure: str, *, clock: bool) -> Points:
    """A column of the steps, mean over ranks, by step; with `clock`, by seconds since the first
    step began."""
    steps, values = run.steps.mean_over_ranks(figure)
    return (run.steps.mean_over_ranks("time")[1] if clock else steps.astype(float)), values


def tested(run: RunFigures, figure: str, *, clock: bool) -> Points:
    """The `loss` or the `accuracy` of the tests, along the same."""
    tests = run.evaluations
    along = [test.time if clock else test.step for test in tests]
    return np.array(along, dtype=float), np.array([getattr(test, figure) for test in tests])


def loss_by_step(run: RunFigures) -> Points:
    """The training loss by step."""
    return trained(run, "loss", clock=False)


def loss_by_time(run: RunFigures) -> Points:
    """The training loss by time."""
    return trained(run, "loss", clock=True)


def accuracy_by_time(run: RunFigures) -> Points:
    """The test accuracy by time."""
    return tested(run, "accuracy", clock=True)
