"""The figures of a run: a row of `FIGURES` for each, from which follow the keys of filters and
`--sort`, those that the help of `rankboard runs` names, the columns of both lists of runs, the
orders of the list on the screen, and what the index leaves empty where hosts know of newer steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from remote.format import UNKNOWN, loss, moment, or_unknown, percent, step_time
from remote.record.entry import Entry


class RunFigure(NamedTuple):
    """A number of a run."""

    field: str
    """The field of `Entry` that has it, and its key in filters."""
    title: str = ""
    """The title of its column, and another key in filters; "" if it has no column."""
    get_text: Callable[[Entry], str] = lambda run: UNKNOWN
    """Returns what stands in its column."""
    is_time: bool = False
    """It is a Unix time."""
    largest_first: bool | None = None
    """Whether the list on the screen, sorted by it, begins with the largest. None: that list cannot
    be sorted by it."""
    changes_each_step: bool = False
    """Each step changes it. So it is left empty where hosts have made steps that no launcher has
    recorded."""


def _format_step(run: Entry) -> str:
    return f"{run.step}/{run.steps}" if 0 < run.step < run.steps else or_unknown(run.step)


def _format_loss(run: Entry) -> str:
    has_number = any(isinstance(flaw.after, float) for flaw in run.flaws)
    return "nan" if run.diverged and not has_number else loss(run.loss)


def _format_known(value: float | None, format_value: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else format_value(value)


_format_accuracy = partial(percent, decimals=1)

# In the order of the columns and of the help.
FIGURES = (
    RunFigure("step", "step", _format_step),
    RunFigure("loss", "loss", _format_loss, largest_first=False, changes_each_step=True),
    RunFigure("test_loss"),
    RunFigure(
        "accuracy",
        "accuracy",
        lambda run: _format_known(run.accuracy, _format_accuracy),
        largest_first=True,
    ),
    RunFigure(
        "step_seconds",
        "per step",
        lambda run: _format_known(run.step_seconds, step_time),
        largest_first=False,
        changes_each_step=True,
    ),
    RunFigure("started", "started", lambda run: moment(run.started or 0), is_time=True),
    RunFigure("elapsed"),
)
FIGURES_WITH_COLUMN = tuple(figure for figure in FIGURES if figure.title)


def add_newer_steps(run: Entry, step: int) -> Entry:
    """Return a run whose hosts know of this step. What its launcher recorded at an older step is
    not known of a newer one."""
    if step <= run.step:
        return run
    unknown_figures: dict[str, Any] = {
        figure.field: None for figure in FIGURES if figure.changes_each_step
    }
    return run._replace(step=step, **unknown_figures)
