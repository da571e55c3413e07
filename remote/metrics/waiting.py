"""Who waited for whom: at each step all ranks wait for the one whose last gradient came last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote.metrics.steps import Floats, Ints, StepTable


@dataclass(frozen=True, eq=False)
class Waiting:
    """`ranks` are the columns. `step` are the steps that all of them made, `last` is the rank for
    which the others waited at each, `seconds` (steps x ranks) is how long each of them did.

    A rank waits no longer than it was blocked on others, so what was hidden behind its own work
    does not count.
    """

    ranks: tuple[int, ...]
    step: Ints
    last: Ints
    seconds: Floats
    share: float
    """The share of a step that a rank other than the last one waited, on average; NaN without
    steps."""

    def for_whom(self) -> Floats:
        """Seconds in total, ranks x ranks: how long the rank of a row waited for the rank of a
        column."""
        total = np.zeros((len(self.ranks), len(self.ranks)))
        for column, rank in enumerate(self.ranks):
            total[:, column] = self.seconds[self.last == rank].sum(axis=0)
        return total

    def held_up(self) -> dict[int, float]:
        """For each rank: for which share of the steps it was the last one."""
        steps = max(1, len(self.last))
        return {rank: float((self.last == rank).sum()) / steps for rank in self.ranks}


def waiting(steps: StepTable) -> Waiting:
    """Who waited for whom, of ranks that wait for each other. Where they do so every few steps
    only, the steps since the last time count together."""
    ranks = steps.ranks
    numbers = steps.matrix("ready")[0]
    ready, seconds, sync = (
        np.nan_to_num(steps.matrix(name)[1], posinf=0.0, neginf=0.0)
        for name in ("ready", "seconds", "sync")
    )
    if len(ranks) < 2 or not len(numbers):
        nothing = np.zeros((len(numbers), len(ranks)))
        return Waiting(ranks, numbers, np.full(len(numbers), -1), nothing, float("nan"))
    met = sync.max(axis=1) > 0
    busy = ready + _since_met(seconds, met)
    late = busy.max(axis=1, keepdims=True) - busy
    waited = np.where(met[:, None], np.minimum(late, sync), 0.0)
    last = np.where(met, np.array(ranks)[busy.argmax(axis=1)], -1)
    whole = seconds.mean(axis=1).sum() * (len(ranks) - 1)
    share = float(waited.sum() / whole) if whole > 0 else float("nan")
    return Waiting(ranks, numbers, last, waited, share)


def _since_met(seconds: Floats, met: NDArray[np.bool_]) -> Floats:
    """Seconds of the whole steps since the ranks last waited for each other, before each step."""
    before = np.vstack([np.zeros(seconds.shape[1]), np.cumsum(seconds, axis=0)])
    places = np.r_[0, np.where(met, np.arange(1, len(met) + 1), 0)]
    return before[:-1] - before[np.maximum.accumulate(places)[:-1]]
