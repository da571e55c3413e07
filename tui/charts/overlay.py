"""Runs as curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from remote.metrics.points import Points, evaluation_points, training_points
from remote.metrics.run import RunFigures
from tui.charts.drawing import smooth
from tui.charts.raster import Curve, Floats
from tui.charts.view import View
from tui.kit.palette import RUN_LETTERS


class Draw(Protocol):
    """The points of a run's curve of a figure, see `remote.metrics.points`."""

    def __call__(self, run: RunFigures, figure: str, *, by_time: bool) -> Points: ...


@dataclass(frozen=True)
class Measure:
    """What runs are compared by: `of` gives the points of a run's `figure`."""

    title: str
    of: Draw
    figure: str

    @property
    def is_noisy(self) -> bool:
        """Whether it is told at each step, by one batch."""
        return self.of is training_points

    @property
    def _factor(self) -> float:
        """Accuracies are in percent, as everywhere else."""
        return 100.0 if self.figure == "accuracy" else 1.0

    def curves(
        self, runs: Sequence[RunFigures], *, clock: bool, smoothed: bool = False
    ) -> list[Curve]:
        """A curve for each run, named by its letter: by step, or with `clock` by seconds.
        `smoothed`: a noisy one is averaged; of few runs, what it is made of stands behind it."""
        raw = []
        means = []
        for place, run in enumerate(runs):
            along, values = self.of(run, self.figure, by_time=clock)
            values = mean = values * self._factor
            if smoothed and self.is_noisy and len(values):
                mean = smooth(self.of(run, self.figure, by_time=False)[0], values, WEIGHT)
                raw.append(_curve(place, along, values, faint=True))
            means.append(_curve(place, along, mean))
        return (raw if len(runs) <= FEW else []) + means


def _curve(place: int, along: Floats, values: Floats, faint: bool = False) -> Curve:
    return Curve(RUN_LETTERS[place], place, along, values, values, values, faint=faint, band=False)


WEIGHT = View().smoothing
FEW = 2
"""Runs of which the single steps are drawn, too."""
LOSS = Measure("training loss", training_points, "loss")
TEST_ACCURACY = Measure("test accuracy (%)", evaluation_points, "accuracy")
MEASURES = (
    LOSS,
    Measure("training accuracy (%)", training_points, "accuracy"),
    TEST_ACCURACY,
    Measure("test loss", evaluation_points, "loss"),
)
