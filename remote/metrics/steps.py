"""Steps of a run as columns of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FIRST = 2
LAST = 40
"""The iterations that the assignment times: the first one is a warm-up."""

COUNTS = ("samples", "correct", "bytes_sent", "staleness")
TIMES = ("data", "compute", "sync", "ready", "cpu_seconds")
"""Columns that a script need not tell, and are 0 then: any of the counts, all times together."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """One row per rank and step, ordered by rank, then step. All columns have one length.

    A step that was made again after a restart is there once, as it was made last. The columns are
    those of `training.wire.rank_events.StepFinished`.
    """

    rank: Ints
    step: Ints
    epoch: Ints
    time: Floats
    """The end of the step, in seconds since the run's first step began."""
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
        """Return the ranks that made steps, in order. A server that only holds the parameters makes
        none."""
        return tuple(np.unique(self.rank).tolist())

    def column(self, name: str) -> Floats:
        """Return a column by its name. `accuracy` is that of each step's batch, a fraction."""
        if name == "accuracy":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(self.samples > 0, self.correct / self.samples, np.nan)
        return np.asarray(getattr(self, name), dtype=np.float64)

    def where(self, is_kept: NDArray[np.bool_]) -> StepTable:
        """Return the rows that are marked True."""
        return StepTable(**{name: getattr(self, name)[is_kept] for name in COLUMNS})

    def list_untold(self) -> tuple[str, ...]:
        """Return the columns that a script does not tell."""
        zeros = [name for name in (*COUNTS, *TIMES) if not getattr(self, name).any()]
        are_times_told = not set(TIMES).issubset(zeros)
        return tuple(name for name in zeros if name in COUNTS or not are_times_told)

    def without(self, names: Collection[str]) -> StepTable:
        """Return the same steps with columns of NaN, as what they have is not known."""
        if not names:
            return self
        unknown = np.full(len(self), np.nan)
        return replace(self, **dict.fromkeys(names, unknown))

    def by_rank(self, rank: int) -> StepTable:
        """Return the steps of one rank."""
        return self.where(self.rank == rank)

    def warm(self) -> StepTable:
        """Return all but the first iteration of each rank."""
        return self.where(self._iterations() >= FIRST)

    def early(self) -> StepTable:
        """Return iterations 2 to 40 of each rank, or what there is of them: those that the
        assignment times."""
        iterations = self._iterations()
        return self.where((iterations >= FIRST) & (iterations <= LAST))

    def per_rank(self, column: str) -> Floats:
        """Return the mean of a column for each of `ranks`, leaving out what is not finite."""
        column_values = self.column(column)
        return np.array([_finite_mean(column_values[self.rank == rank]) for rank in self.ranks])

    def mean(self, column: str) -> float:
        """Return the mean over ranks of their means, as the assignment averages over nodes; NaN
        without steps."""
        return _finite_mean(self.per_rank(column))

    def total(self, column: str) -> float:
        """Return the sum of a column over all rows, leaving out what is not finite."""
        column_values = self.column(column)
        return float(column_values[np.isfinite(column_values)].sum())

    def samples_per_second(self, *, are_apart: bool = False) -> float:
        """Return samples per second of all ranks together; NaN without steps, and of a script that
        does not tell them.

        It is their mean if they `are_apart`: each trains a model of its own.
        """
        total_rate = 0.0
        for rank in self.ranks:
            rank_steps = self.by_rank(rank)
            seconds = rank_steps.total("seconds")
            if seconds > 0:
                total_rate += rank_steps.total("samples") / seconds
        if not total_rate:
            return float("nan")
        return total_rate / len(self.ranks) if are_apart else total_rate

    def mean_over_ranks(self, column: str) -> tuple[Ints, Floats]:
        """Return the steps, in order, and the mean of a column over the ranks that made each.

        What is not finite stays, so that a loss of NaN is seen.
        """
        steps, means = self.means_over_ranks([column])
        return steps, means[column]

    def means_over_ranks(self, columns: Sequence[str]) -> tuple[Ints, dict[str, Floats]]:
        """Return what `mean_over_ranks` does, for several columns."""
        steps, step_places = np.unique(self.step, return_inverse=True)
        rank_counts = np.maximum(np.bincount(step_places, minlength=len(steps)), 1)
        means = {}
        with np.errstate(invalid="ignore", over="ignore"):
            for name in columns:
                sums = np.bincount(step_places, self.column(name), minlength=len(steps))
                means[name] = sums / rank_counts
        return steps, means

    def percentiles(self, column: str, shares: Sequence[float]) -> tuple[float, ...]:
        """Return percentiles (0 to 100) of a column over all rows; NaN without any."""
        finite_values = self.column(column)
        finite_values = finite_values[np.isfinite(finite_values)]
        if not finite_values.size:
            return (float("nan"),) * len(shares)
        return tuple(np.percentile(finite_values, list(shares)).tolist())

    def matrix(self, column: str) -> tuple[Ints, Floats]:
        """Return the steps that all ranks made, in order, and a column of them as steps x ranks."""
        steps, rank_counts = np.unique(self.step, return_counts=True)
        common_steps = steps[rank_counts == len(self.ranks)]
        is_common = np.isin(self.step, common_steps)
        # Rows are ordered by rank, then step, so that each rank fills a row of the new shape.
        return common_steps, self.column(column)[is_common].reshape(
            len(self.ranks), len(common_steps)
        ).T

    def _iterations(self) -> Ints:
        """Return which iteration of its rank each row is, from 1."""
        # Rows are ordered by rank: the first row of its rank is where the rank would be inserted.
        rank_starts = np.searchsorted(self.rank, self.rank)
        return np.arange(len(self), dtype=np.int64) - rank_starts + 1


COLUMNS = tuple(column.name for column in fields(StepTable))
"""Names of the columns, in order."""
SERIES = tuple(name for name in COLUMNS if name not in ("rank", "step", "epoch", "time"))
"""Columns that are measured at each step."""
WHOLE_NUMBERS = ("rank", "step", "epoch")


def join_tables(tables: Iterable[StepTable]) -> StepTable:
    """Return the rows of tables, at least one, that follow each other by step."""
    all_tables = [*tables]
    order = np.argsort(np.concatenate([table.rank for table in all_tables]), kind="stable")
    return StepTable(
        **{
            name: np.concatenate([getattr(table, name) for table in all_tables])[order]
            for name in COLUMNS
        }
    )


def _finite_mean(values: Floats) -> float:
    finite_values = values[np.isfinite(values)]
    if not finite_values.size:
        return float("nan")
    # The sum of losses that have diverged may be beyond all numbers.
    with np.errstate(over="ignore"):
        return float(finite_values.mean())
