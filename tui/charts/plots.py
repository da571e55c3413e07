"""Curves as lines over each other, or as bars in lanes: their scales, ticks, names and pictures."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.run.series.definitions import Unit
from tui.charts import raster
from tui.charts.annotations import (
    PointLabel,
    StepLabel,
    find_peak,
    put_above_bars,
    put_end_name,
    put_peaks,
    put_point_label,
    put_signs,
    put_step_label,
)
from tui.charts.axis import Axis
from tui.charts.bars import Lane, draw_bars
from tui.charts.margin import EndName
from tui.charts.raster import ALARM_COLOUR, Curve, DotPicture
from tui.charts.row_scale import RowScale
from tui.charts.units import format_tick, format_value
from tui.kit import palette
from tui.kit.inks import TEST

EARLY_END = 0.9
"""The share of the x axis before which a curve ends early: its name at the right edge would be far
from it."""


MAX_SHARE_OF_LONE_POINTS = 1 / 10
"""With tests in less of the columns, each is a point of its own, on a faint line: closer ones would
break it into dashes."""


class LinePlot(Struct, frozen=True):
    """Curves as lines over each other."""

    curves: Sequence[Curve]
    scale: RowScale
    rows: int
    unit: Unit
    point_labels: Sequence[PointLabel]
    alarm: StepLabel | None
    """What has the sign of an alarm."""
    all_named: bool
    """Whether the label of each curve is its name."""

    @property
    def y_axis(self) -> Axis:
        """The axis of all curves."""
        return self.scale.axis

    def row_texts(self) -> dict[int, str]:
        """Return the texts at the left of rows: the ticks of the y axis."""
        return dict(self.scale.ticks)

    def tick_rows(self) -> Collection[int]:
        """Return the rows whose text belongs to a tick of the y axis: all that have one."""
        return {row for row, _ in self.scale.ticks}

    def axis_rows(self) -> range:
        """Return the rows that have the line of the y axis: all."""
        return range(self.rows)

    def end_names(self, x_axis: Axis) -> list[EndName]:
        """Return the names of curves where they end, or where they leave the view."""
        names = []
        for curve in self.curves:
            name = curve.end_name or (curve.label if self.all_named else "")
            seen = np.isfinite(self.y_axis.shares_of(curve.mean)) & (curve.x <= x_axis.high)
            places = np.flatnonzero(seen)
            if name and not curve.faint and places.size:
                last = int(places[-1])
                share = self.y_axis.share_of(float(curve.mean[last]))
                row = (1 - min(max(share, 0.0), 1.0)) * (self.rows - 0.25)
                x = float(curve.x[last])
                names.append(EndName(name, curve.end_value, curve.colour, row, x))
        return names

    def put_early_names(
        self, picture: DotPicture, names: Sequence[EndName], x_axis: Axis
    ) -> list[EndName]:
        """Write the names of curves that end far from the right edge beside their ends, where there
        is room, unless a label has named that point. Return the other names, which stand in the
        margin."""
        others = []
        for name in names:
            is_early = x_axis.share_of(name.x) < EARLY_END
            is_labelled = any(
                (label.colour, label.x) == (name.colour, name.x)
                and label.text.startswith(name.name)
                for label in self.point_labels
            )
            if not (is_early and (is_labelled or put_end_name(picture, name, x_axis))):
                others.append(name)
        return others

    def draw(self, x_axis: Axis, width: int) -> DotPicture:
        """Return the picture of the curves."""
        all_columns = []
        for curve in self.curves:
            line = curve
            if curve.colour == TEST and _has_few_points(curve, x_axis, width):
                # As an unbroken line, they would look like many more.
                line = replace(curve, faint=True)
                points = raster.to_columns(
                    curve, x_axis, 2 * width, self.y_axis.log, only_points=True
                )
                all_columns.append(points)
            all_columns.append(raster.to_columns(line, x_axis, 2 * width, self.y_axis.log))
        if not all_columns:
            return raster.blank_picture(self.rows, width)
        return raster.draw_lines(all_columns, *self.y_axis.ends, self.rows)

    def annotate(self, picture: DotPicture, x_axis: Axis) -> None:
        """Put the signs of points, and the values of peaks."""
        for curve in self.curves:
            put_signs(picture, curve, x_axis, self.y_axis)
        for label in self.point_labels:
            put_point_label(picture, label, x_axis, self.y_axis)
        put_peaks(picture, self.curves, x_axis, self.y_axis, self.unit)
        main_curves = [curve for curve in self.curves if not curve.faint and curve.colour != TEST]
        if self.alarm is not None and main_curves:
            sign = palette.sign("slow")
            put_step_label(picture, main_curves[-1], self.alarm, sign, ALARM_COLOUR, x_axis)


def _has_few_points(curve: Curve, x_axis: Axis, width: int) -> bool:
    is_seen = x_axis.has(curve.x) & np.isfinite(curve.mean)
    return int(is_seen.sum()) < MAX_SHARE_OF_LONE_POINTS * width


class BarPlot(Struct, frozen=True):
    """Curves as bars, each in a lane of its own. All lanes have the same scale."""

    curves: Sequence[Curve]
    lanes: Sequence[Lane]
    rows: int
    unit: Unit
    y_axis: None = None

    def row_texts(self) -> dict[int, str]:
        """Return the texts at the left of rows: the name of each lane at its foot, and the tick of
        the highest one, as all have the same scale."""
        texts = {lane.top + lane.rows - 1: self.curves[lane.curve].label for lane in self.lanes}
        return texts | dict.fromkeys(self.tick_rows(), self._tick_text)

    def tick_rows(self) -> Collection[int]:
        """Return the row whose text is a tick: the first of the highest lane. A lane of one row has
        only its name."""
        highest = self._highest_lane
        return (highest.top,) if highest and highest.rows > 1 else ()

    def axis_rows(self) -> range:
        """Return the rows that have the line of the y axis: those of the lane with its tick."""
        highest = self._highest_lane
        return range(highest.top, highest.top + highest.rows) if highest else range(0)

    @property
    def _tick_text(self) -> str:
        highest = self._highest_lane
        return format_tick(highest.high, self.unit) if highest else ""

    @property
    def _highest_lane(self) -> Lane | None:
        return max(self.lanes, key=lambda lane: lane.rows, default=None)

    def end_names(self, x_axis: Axis) -> list[EndName]:
        """Return the values of the lanes."""
        names = []
        for lane in self.lanes:
            curve = self.curves[lane.curve]
            if curve.end_value:
                names.append(EndName("", curve.end_value, curve.colour, lane.top, x_axis.high))
        return names

    def draw(self, x_axis: Axis, width: int) -> DotPicture:
        """Return the picture of the curves."""
        all_columns = [
            raster.to_columns(curve, x_axis, 2 * width, log=False) for curve in self.curves
        ]
        return draw_bars(all_columns, self.lanes, self.rows, width)

    def annotate(self, picture: DotPicture, x_axis: Axis) -> None:
        """Write into each lane how far bars go beyond it, if they do and there is room above
        them."""
        for lane in self.lanes:
            curve = replace(self.curves[lane.curve], band=False)
            peak, x = find_peak(curve, x_axis, Axis(0.0, lane.high))
            if peak > -math.inf and lane.rows > 1:
                text = f"longest {format_value(peak, self.unit)}"
                rows = range(lane.top, lane.top + lane.rows)
                put_above_bars(picture, rows, x_axis.share_of(x), text)
