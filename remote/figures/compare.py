"""Runs compared with the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remote.figures.run import RunFigures
from remote.figures.steps import Floats
from remote.statistics.interval import Interval
from remote.statistics.ratio import Comparison
from remote.statistics.steps import compare_steps


@dataclass(frozen=True)
class Compared:
    """A run beside the first one.

    `seconds` is what an iteration took, by the reference's rule, with the interval of what is known
    of this one run. `against` compares it with the first run's: run / first; None for the first run
    itself, and where one of the two has no steps. `per_sample`: there, the seconds are those of a
    sample, because the steps of the two runs have batches of other sizes. `common` is the number of
    steps that both made, and `apart` the largest difference of their mean training losses there;
    NaN without such.
    """

    run: RunFigures
    seconds: Interval
    against: Comparison | None
    per_sample: bool = False
    common: int = 0
    apart: float = float("nan")


def compare(runs: Sequence[RunFigures]) -> tuple[Compared, ...]:
    """Compare runs with the first one, in their order."""
    times = [_timed(run) for run in runs]
    first = runs[0]
    found = [Compared(first, _mean(times[0]), None)]
    for run, seconds in zip(runs[1:], times[1:], strict=True):
        known = times[0].size and seconds.size
        size, others = _batch_sizes(run, first)
        against = compare_steps(seconds / size, times[0] / others) if known else None
        found.append(Compared(run, _mean(seconds), against, size != others, *_apart(run, first)))
    return tuple(found)


def _timed(run: RunFigures) -> Floats:
    """Seconds of iterations 2 to 40, as means over ranks."""
    _, seconds = run.steps.early().mean_over_ranks("seconds")
    return seconds[np.isfinite(seconds)]


def _batch_sizes(run: RunFigures, first: RunFigures) -> tuple[int, int]:
    """The global batch sizes of two runs; 1 and 1 where they are not known."""
    return (run.job.batch_size, first.job.batch_size) if run.job and first.job else (1, 1)


def _mean(seconds: Floats) -> Interval:
    """The mean of a run's steps: their ratio to steps of one second. The interval allows for the
    noise from step to step, and not for that from run to run."""
    return compare_steps(seconds, np.ones(len(seconds)), between=0.0).ratio


def _apart(run: RunFigures, first: RunFigures) -> tuple[int, float]:
    """How many steps both runs made, and how far their losses are apart there at most."""
    (steps, losses), (others, their_losses) = (
        one.steps.mean_over_ranks("loss") for one in (run, first)
    )
    common, mine, theirs = np.intersect1d(steps, others, return_indices=True)
    apart = np.abs(losses[mine] - their_losses[theirs])
    known = apart[np.isfinite(apart)]
    return len(common), float(known.max()) if known.size else float("nan")
