"""Runs as curves over each other, for charts on the screen and as text. Imports no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from remote.figures.points import Points, tested, trained
from remote.figures.run import RunFigures
from tui.text.compare import LETTERS
from tui.widgets.raster import Curve


class Draw(Protocol):
    """The points of a run's curve of a figure, see `remote.figures.points`."""

    def __call__(self, run: RunFigures, figure: str, *, clock: bool) -> Points: ...


@dataclass(frozen=True)
class Measure:
    """What runs are compared by: `of` gives the points of a run's `figure`."""

    title: str
    of: Draw
    figure: str

    def curves(self, runs: Sequence[RunFigures], *, clock: bool) -> list[Curve]:
        """A curve for each run, named by its letter: by step, or with `clock` by seconds."""
        found = []
        for place, run in enumerate(runs):
            along, values = self.of(run, self.figure, clock=clock)
            found.append(Curve(LETTERS[place], place, along, values, values, values))
        return found


LOSS = Measure("training loss", trained, "loss")
TEST_ACCURACY = Measure("test accuracy", tested, "accuracy")
MEASURES = (
    LOSS,
    Measure("training accuracy", trained, "accuracy"),
    TEST_ACCURACY,
    Measure("test loss", tested, "loss"),
)
