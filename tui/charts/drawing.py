"""What a chart draws, as a value."""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from remote.record.step_notes import StepNote
from remote.run.run_state import RunState
from tui.charts.chart_lines import ChartLine
from tui.charts.plot_frame import PlotOptions, curves_for_height
from tui.charts.raster import Curve
from tui.charts.x_labels import Mark


class Baseline(Struct, frozen=True, eq=False):
    """The run that is pinned, whose curves stand behind those of others."""

    name: str
    run: RunState


class Drawing(Struct, frozen=True, eq=False):
    """What a chart draws, and the points behind it."""

    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...]
    options: PlotOptions
    lines: tuple[ChartLine, ...]
    x_range: tuple[float, float] | None
    """The least and the greatest x of all curves."""
    hidden: int = 0
    """Ranks or hosts that are too many to be drawn."""
    newest: float = math.nan
    """The value that stands above the chart, or NaN."""
    newest_name: str = ""
    """Whose value that is, if the names of the curves do not say it."""
    is_headline: bool = False
    """The newest value is the training loss as the header has it, not one of the curve."""
    headline_row: int | None = None
    """The rank, or -1 for all, whose figure in the header the newest value is; None if it is one of
    the curve."""
    smoothing: float = 0.0
    """The weight of the past in the average that is drawn, or 0."""
    step_phases: tuple[float, ...] = ()
    """Of a chart of phases, the seconds of each in a step, as in the header of the run."""
    limit: float = math.nan
    """What the values cannot exceed, such as the rate of a link, or NaN."""
    capacity: str = ""
    """Of what the newest value is a share, such as "2 cores", or ""."""
    notes: tuple[tuple[float, StepNote], ...] = ()
    """The notes at steps, with their x."""
    baseline_name: str = ""
    baseline: float = math.nan
    """The value of the baseline at the newest x, or NaN."""
    best_test: str = ""
    """The value of the test that has the sign, or ""."""
    staleness: str = ""
    """Of when the speed is that is drawn, if the ranks no longer have it."""
    band_name: str = ""
    """What lies in the band around a mean."""

    def for_height(self, height: int) -> Drawing:
        """Return what a chart with so many rows shows of this."""
        return replace(
            self,
            curves=tuple(curves_for_height(self.curves, height)),
            options=self.options.for_height(height),
        )
