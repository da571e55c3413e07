"""Makes what a chart draws of a run: its curves, with notes, and with a baseline behind them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from remote.record.step_notes import StepNote
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.drawer import Drawer, find_headline, phase_seconds
from tui.charts.drawing import Baseline, Drawing
from tui.charts.kinds import ChartKind
from tui.charts.raster import Curve
from tui.charts.smoothing import newest_known
from tui.charts.x_labels import NOTE_LETTER
from tui.kit.inks import REFERENCE

MIN_FINE_POINTS = 200
"""Points in view that are fine enough."""


def make_drawing(
    run: RunState,
    kind: ChartKind,
    view: ChartView,
    fine_curves: Curves | None = None,
    baseline: Baseline | None = None,
    notes: Sequence[StepNote] = (),
) -> Drawing:
    """Return what a chart of this kind draws of a run, whose lock is held.

    `fine_curves` are finer curves of the part in view. The curve of a baseline stands behind, and
    `notes` are marked.
    """
    # Without a step, all points would stand at the same place.
    if not run.has_begun and SERIES[kind.series[0]].source.by_time:
        view = replace(view, along=XAxis.TIME)
    drawing = Drawer(run, kind, view, run.curves).make()
    if fine_curves is not None:
        # Finer curves end near the view, but moving and zooming need the range of the whole run.
        fine_drawing = Drawer(run, kind, view, fine_curves).make()
        drawing = replace(fine_drawing, x_range=drawing.x_range)
    if notes and view.marks:
        drawing = _with_notes(drawing, notes)
    if baseline is None or drawing.x_range is None:
        return drawing
    return _with_baseline(drawing, kind, view, baseline)


def _with_notes(drawing: Drawing, notes: Sequence[StepNote]) -> Drawing:
    """Mark the notes at the x of their steps, as far as there are values."""
    line = next((line for line in drawing.lines if len(line.points)), None)
    if line is None:
        return drawing
    steps = np.array([note.step for note in notes], float)
    places = np.interp(steps, line.points.step, line.x).tolist()
    marks = tuple((x, NOTE_LETTER) for x in places)
    return replace(
        drawing, marks=(*drawing.marks, *marks), notes=tuple(zip(places, notes, strict=True))
    )


def _with_baseline(
    drawing: Drawing, kind: ChartKind, view: ChartView, baseline: Baseline
) -> Drawing:
    """Draw the curve of the baseline behind the others, up to their newest x.

    Bars have no room for it: only its value, the sum of all bars, is told.
    """
    assert drawing.x_range is not None
    whole_mean = replace(view.whole(), mode=CurveMode.MEAN)
    drawer = Drawer(baseline.run, kind, whole_mean, baseline.run.curves)
    curves = [drawer.mean_curve(series) for series in kind.series]
    means = [curve.mean[curve.x <= drawing.x_range[1]] for curve in curves]
    drawing = replace(
        drawing,
        baseline_name=baseline.name,
        baseline=sum(newest_known(mean) for mean in means),
    )
    if kind.stacked or not means[0].size:
        return drawing
    x = curves[0].x[: means[0].size]
    ghost = Curve("", REFERENCE, x, means[0], means[0], means[0], faint=True, band=False)
    return replace(drawing, curves=(ghost, *drawing.curves))


def with_header_figures(drawing: Drawing, kind: ChartKind, run: RunState) -> Drawing:
    """Return a drawing with the header's figures of now, though its curves are of before."""
    if kind.stacked:
        return replace(drawing, step_phases=phase_seconds(run, kind))
    if drawing.headline_row is None:
        return drawing
    return replace(drawing, newest=find_headline(run, kind, drawing.headline_row))


def steps_to_refine(
    drawing: Drawing, kind: ChartKind, view: ChartView, run: RunState
) -> tuple[int, int] | None:
    """Return the first and the last step in view if they have more points than are drawn."""
    if view.window is None or not drawing.lines:
        return None
    # Samples come with a time and not with a step, and only steps are read again.
    if SERIES[kind.series[0]].source.by_time:
        return None
    line = drawing.lines[0]
    known = np.flatnonzero(np.isfinite(line.x))
    first, end = np.searchsorted(line.x[known], view.window)
    inside = known[max(first - 1, 0) : end + 1]  # with one more at each side
    if inside.size < 2:
        return None
    first_step = int(line.points.step[inside[0]])
    last_step = int(line.points.step[inside[-1]])
    is_coarse = inside.size < min(0.7 * (last_step - first_step), MIN_FINE_POINTS)
    return (first_step, last_step) if is_coarse else None
