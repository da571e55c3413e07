"""The steps of a run as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from training.wire.events import StepFinished

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FIRST = 2
LAST = 40
"""The iterations that the reference times: the first one is a warm-up."""
BLOCK = 1 << 16
"""Steps that are kept as objects before they become rows of arrays."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """One row per rank and step, ordered by rank, then step. All columns have one length.

    `time` is the end of the step, in seconds since the run's first step began. The other columns
    are those of `training.wire.events.StepFinished`. A step that was made again after a
    restart is there once, as it was made last.
    """

    rank: Ints
    step: Ints
    epoch: Ints
    time: Floats
    loss: Floats
    seconds: Floats
    data: Floats
    compute: Floats
    sync: Floats
    ready: Floats
    cpu_seconds: Floats
    samples: Floats
    correct: Floats
    bytes_sent: Floats
    staleness: Floats

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that made steps, in order. A server that only holds the parameters makes
        none."""
        return tuple(np.unique(self.rank).tolist())

    def column(self, name: str) -> Floats:
        """A column by its name, as floats. `accuracy` is that of each step's batch, a fraction."""
        if name == "accuracy":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(self.samples > 0, self.correct / self.samples, np.nan)
        return np.asarray(getattr(self, name), dtype=np.float64)

    def where(self, rows: NDArray[np.bool_]) -> StepTable:
        """The rows that are marked True."""
        return StepTable(**{name: getattr(self, name)[rows] for name in COLUMNS})

    def by_rank(self, rank: int) -> StepTable:
        """The steps of one rank."""
        return self.where(self.rank == rank)

    def warm(self) -> StepTable:
        """All but the first iteration of each rank."""
        return self.where(self._iteration() >= FIRST)

    def early(self) -> StepTable:
        """Iterations 2 to 40 of each rank, or what there is of them: those that the reference
        times."""
        iteration = self._iteration()
        return self.where((iteration >= FIRST) & (iteration <= LAST))

    def per_rank(self, column: str) -> Floats:
        """The mean of a column for each of `ranks`, leaving out what is not finite."""
        values = self.column(column)
        return np.array([_mean(values[self.rank == rank]) for rank in self.ranks])

    def mean(self, column: str) -> float:
        """The mean over ranks of their means, as the reference averages over nodes; NaN without
        steps."""
        return _mean(self.per_rank(column))

    def total(self, column: str) -> float:
        """The sum of a column over all rows, leaving out what is not finite."""
        values = self.column(column)
        return float(values[np.isfinite(values)].sum())

    def samples_per_second(self) -> float:
        """Samples per second of all ranks together; NaN without steps."""
        ranks = [self.by_rank(rank) for rank in self.ranks]
        sums = [(rank.total("samples"), rank.total("seconds")) for rank in ranks]
        return sum(made / took for made, took in sums if took > 0) if sums else float("nan")

    def mean_over_ranks(self, column: str) -> tuple[Ints, Floats]:
        """The steps, in order, and the mean of a column over the ranks that made each. What is not
        finite stays, so that a loss of NaN is seen."""
        steps, place = np.unique(self.step, return_inverse=True)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.bincount(place, weights=self.column(column), minlength=len(steps))
        return steps, sums / np.maximum(np.bincount(place, minlength=len(steps)), 1)

    def percentiles(self, column: str, shares: Sequence[float]) -> tuple[float, ...]:
        """These percentiles (0 to 100) of a column over all rows; NaN without any."""
        values = self.column(column)
        values = values[np.isfinite(values)]
        if not values.size:
            return (float("nan"),) * len(shares)
        return tuple(np.percentile(values, list(shares)).tolist())

    def matrix(self, column: str) -> tuple[Ints, Floats]:
        """The steps that all ranks made, in order, and a column of them as steps x ranks."""
        steps, counts = np.unique(self.step, return_counts=True)
        common = steps[counts == len(self.ranks)]
        rows = np.isin(self.step, common)
        return common, self.column(column)[rows].reshape(len(self.ranks), len(common)).T

    def _iteration(self) -> Ints:
        """Which iteration of its rank each row is, from 1."""
        starts = np.searchsorted(self.rank, self.rank)
        return np.arange(len(self), dtype=np.int64) - starts + 1


COLUMNS = tuple(column.name for column in fields(StepTable))
"""The names of the columns, in order."""
SERIES = tuple(name for name in COLUMNS if name not in ("rank", "step", "epoch", "time"))
"""The columns that are measured at each step."""
_WHOLE = ("rank", "step", "epoch")
_measured: Callable[[StepFinished], tuple[float, ...]] = attrgetter(*SERIES)


class StepColumns:
    """Gathers the steps of a run, in order of arrival."""

    def __init__(self) -> None:
        self._steps: list[tuple[StepFinished, int, float]] = []
        self._whole: list[Ints] = []
        self._figures: list[Floats] = []
        self._resumed: dict[int, int] = {}

    def add(self, step: StepFinished, attempt: int, when: float) -> None:
        """Take in a step of an attempt that ended at this Unix time."""
        self._steps.append((step, attempt, when))
        if len(self._steps) >= BLOCK:
            self._pack()

    def resume(self, attempt: int, step: int) -> None:
        """An attempt begins after this step: later ones of attempts before it did not happen."""
        self._resumed.setdefault(attempt, step)

    def table(self, started: float) -> tuple[StepTable, float]:
        """All of them, and the Unix time at which the first one began: not before the run has
        `started`, whatever a host says. That time itself where there is none."""
        self._pack()
        whole = np.concatenate(self._whole)
        figures = np.concatenate(self._figures)
        began = figures[:, 0] - np.nan_to_num(figures[:, 1 + SERIES.index("seconds")])
        zero = max(started, float(began.min())) if len(began) else started
        rows = self._lasting(whole)
        whole = whole[rows]
        figures = figures[rows]
        figures[:, 0] -= zero
        return StepTable(*whole[:, : len(_WHOLE)].T, *figures.T), zero

    def _pack(self) -> None:
        steps = self._steps
        whole = [(step.rank, step.step, step.epoch, attempt) for step, attempt, _ in steps]
        figures = [(when, *_measured(step)) for step, _, when in steps]
        self._whole.append(np.array(whole, dtype=np.int64).reshape(-1, 1 + len(_WHOLE)))
        self._figures.append(np.array(figures, dtype=np.float64).reshape(-1, 1 + len(SERIES)))
        self._steps = []

    def _lasting(self, whole: Ints) -> Ints:
        """The rows that count, ordered by rank and step."""
        rank, step, _, attempt = whole.T
        counts = np.ones(len(whole), dtype=bool)
        for number, resumed in self._resumed.items():
            counts &= (attempt >= number) | (step <= resumed)
        (rows,) = np.nonzero(counts)
        rows = rows[np.lexsort((rows, step[rows], rank[rows]))]
        rank = rank[rows]
        step = step[rows]
        again = (np.diff(rank) == 0) & (np.diff(step) == 0)
        lasting: Ints = rows[np.r_[~again, True][: len(rows)]]
        return lasting


def _mean(values: Iterable[float] | Floats) -> float:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return float("nan")
    with np.errstate(over="ignore"):  # of losses that have diverged
        return float(finite.mean())
