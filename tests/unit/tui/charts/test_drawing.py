"""What charts show of a run, as plain data: kinds, views, curves and values, what is remembered."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from textual.app import ComposeResult

from remote import format
from remote.events import Stalled
from remote.run.apply import apply_record
from remote.run.findings.training_loss import find_training_loss
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from tests.kit.histories import START, History, plan, said, stepped
from tests.kit.scripts import line, logging, script, seen, started
from training.job import Job
from training.wire.events import Record
from training.wire.host_events import Hello, HostSample, RankSample
from training.wire.rank_events import Evaluated, Saved, Started, StepFinished
from tui.charts import heading as values
from tui.charts import raster
from tui.charts.axis import Axis
from tui.charts.chart import Chart
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.deck import Deck
from tui.charts.drawing import Baseline, Drawing
from tui.charts.kinds import KINDS, ChartKind, available
from tui.charts.make_drawing import make_drawing
from tui.charts.panel import Charts
from tui.charts.plot_frame import PlotFrame, PlotOptions, make_frame
from tui.charts.raster import FAINT, NO_COLOUR, Curve
from tui.charts.smoothing import SMOOTHED_STEPS, smooth
from tui.kit import user_state as remembered
from tui.kit.palette import LEVELS
from tui.kit.themes import InkedApp

LOSS, PHASES, ACCURACY = KINDS[:3]
GPU = next(kind for kind in KINDS if kind.id == "gpu")
ENDS = (0.0, 100.0)
WHOLE = Axis(0.0, 100.0)


def trained(steps: int = 60, ranks: int = 4) -> RunState:
    """A run in which rank 2 has the least loss and rank 3 the greatest."""
    history = History(plan(ranks)).training(steps=0, total=steps)
    state = history.state()
    for step in range(1, steps + 1):
        for rank in range(ranks):
            loss = 3.0 / step + (0.5 if rank == 3 else -0.1 if rank == 2 else 0.0) / step
            event = replace(
                stepped(rank, step, data=0.01, compute=0.06, sync=0.03, samples=8, correct=6),
                loss=loss,
            )
            apply_record(state, Record(rank, 0, 1_000 + step, START + 10 + step / 10, event))
    return state


def draw(state: RunState, kind: ChartKind = LOSS, view: ChartView | None = None) -> Drawing:
    return make_drawing(state, kind, view or ChartView(smoothing=0.0))


def test_the_mean_with_one_band_over_the_ranks_is_what_one_sees_first() -> None:
    drawn = make_drawing(trained(), LOSS, ChartView(smoothing=0.9))
    raw, even = drawn.curves
    assert (raw.faint, raw.band) == (True, True)
    assert (even.faint, even.band) == (False, False)
    assert list(raw.mean * raw.x) == pytest.approx([3.1] * 60)
    assert even.mean[20] > raw.mean[20], "the average lags behind"
    assert (raw.low < even.mean).all(), "and so does the band around it"
    assert (even.mean < raw.high).all()
    assert list(raw.low / even.mean) == pytest.approx([2.9 / 3.1] * 60)


def test_band_all_ranks_and_one_against_the_mean() -> None:
    state, view = trained(), ChartView(smoothing=0.0)
    seen = []
    for chosen in (2, 2, 3, 3, 3):
        drawn = draw(state, view=view)
        seen.append([line.name for line in drawn.lines])
        view = view.next_mode(4, chosen)
    each = ["0", "1", "2", "3"]
    assert seen == [["mean"], each, ["mean", "2"], ["mean", "3"], ["mean"]]
    assert not any(curve.band for curve in draw(state, view=ChartView(mode=CurveMode.EACH)).curves)


def test_titles_have_no_speed_during_a_stall_as_the_header_has_none() -> None:
    history = History(plan(2)).training(20, compute=0.06, sync=0.03)
    kinds = [PHASES, *(kind for kind in KINDS if kind.id in ("seconds", "throughput"))]

    def titles() -> list[str]:
        drawings = [(draw(history.state(), kind), kind) for kind in kinds]
        headings = [values.heading(drawing, kind, ChartView(), 80) for drawing, kind in drawings]
        return ["".join(text for text, _ in parts) for parts in headings]

    assert all(re.search(r"\d", title) for title in titles())
    history.session(Stalled((0, 1), 31.0))
    assert not any(re.search(r"\d", title) for title in titles())
    loss_title = values.heading(draw(history.state()), LOSS, ChartView(), 80)[0][0]
    assert re.search(r"\d", loss_title), "the loss is still true"


def texts_at_right(frame: PlotFrame) -> list[str]:
    """What stands at the right of each row."""
    return ["".join(text for text, _ in ends) for ends in frame.row_ends]


def test_the_names_of_several_curves_stand_at_their_ends_so_that_no_colour_is_needed() -> None:
    def names(view: ChartView, ranks: int = 4, width: int = 60) -> set[str]:
        drawn = draw(trained(ranks=ranks), view=view)
        made = make_frame(drawn.curves, structs.replace(drawn.options, warm=None), width, 20)
        assert made
        assert not made.picture.sign.any(), "no name covers a curve"
        return set(" ".join(texts_at_right(made)).split())

    assert names(ChartView()) == set()
    assert names(ChartView(mode=CurveMode.EACH)) == {*"0123"}
    assert names(ChartView(mode=CurveMode.ONE, one=2)) == {"mean", "2"}
    assert names(ChartView(mode=CurveMode.EACH), ranks=30, width=14) == set(), "there is no room"
    assert names(ChartView(mode=CurveMode.EACH), ranks=30) == {str(rank) for rank in range(30)}


def test_names_of_curves_that_end_at_one_place_have_a_row_each_while_there_are_rows() -> None:
    x = np.arange(9.0)
    curves = [Curve(f"rank{rank}", rank, x, x, x, x, band=False) for rank in range(5)]
    for height, most_in_a_row in ((12, 1), (6, 1), (4, 2)):
        made = make_frame(curves, PlotOptions("step", named=True), 78, height)
        assert made
        rows = [text.split() for text in texts_at_right(made)]
        assert sorted(name for row in rows for name in row) == [f"rank{rank}" for rank in range(5)]
        assert max(map(len, rows)) == most_in_a_row
        assert all(rows[: sum(map(bool, rows)) + 1][1:-1]), "they stand at the top, where they end"


@pytest.mark.parametrize(
    ("other_level", "row_offset"), [(-1.0, 0), (0.0, -1)], ids=["free", "on another curve"]
)
def test_the_name_of_a_curve_that_ends_early_stands_in_the_nearest_free_cell(
    other_level: float, row_offset: int
) -> None:
    x = np.arange(41.0)
    short = Curve("A", 0, x[:21], *3 * [np.zeros(21)], band=False)
    long = Curve("B", 1, x, *3 * [np.full(41, other_level)], band=False)
    limits = Curve("", 2, x[:2], *3 * [np.array([-2.0, 2.0])], faint=True, band=False)
    made = make_frame([short, long, limits], PlotOptions("step", named=True), 78, 12)
    assert made
    [row], [column] = np.nonzero(made.picture.sign == ord("A"))
    ends = np.argwhere((made.picture.dots > 0) & (made.picture.curve == 0))
    end_row, end_column = max(ends.tolist(), key=lambda cell: cell[1])
    assert row == end_row + row_offset
    assert 0 < column - end_column <= 2


def test_more_ranks_than_can_be_told_apart_are_not_drawn() -> None:
    drawn = draw(trained(3, ranks=40), view=ChartView(mode=CurveMode.EACH, smoothing=0.0))
    assert (len(drawn.lines), drawn.hidden) == (32, 8)


def test_steps_epochs_time_and_samples() -> None:
    state = trained()
    batch = Job().batch_size
    ends = {along: draw(state, view=ChartView(along, smoothing=0.0)).x_range for along in XAxis}
    assert ends[XAxis.STEP] == (1, 60)
    assert ends[XAxis.EPOCH] == (0.1, 6.0)
    assert ends[XAxis.SAMPLES] == (batch, 60 * batch)
    begin, end = ends[XAxis.TIME] or (0, 0)
    assert end - begin == pytest.approx(5.9)
    view = ChartView()
    for along in (XAxis.EPOCH, XAxis.TIME, XAxis.SAMPLES, XAxis.STEP):
        view = view.next_axis()
        assert view.along is along


def test_each_phase_has_bars_of_its_own_between_its_name_and_its_mean() -> None:
    drawn = draw(trained(), PHASES)
    assert [curve.mean[9] for curve in drawn.curves] == pytest.approx([0.01, 0.06, 0.03])
    for width in (80, 50):
        options = structs.replace(drawn.options, has_end_values=True)
        found = make_frame(drawn.curves, options, width, 12)
        assert found is not None
        values = [text.strip() for text in texts_at_right(found) if text.strip()]
        assert values == ["10 ms", "60 ms", "30 ms"]
        labels = [label.strip("│┤ ") for label in found.row_labels]
        assert [label for label in labels if label.isalpha()] == ["data", "compute", "sync"]


def test_the_scale_of_the_phases_is_told_once_beside_its_lane_and_no_other_has_ticks() -> None:
    drawn = draw(trained(), PHASES)
    found = make_frame(drawn.curves, drawn.options, 80, 12)
    assert found
    labels = list(found.row_labels)
    (top,) = [row for row, label in enumerate(labels) if label.endswith("┤")]
    foot = next(row for row, label in enumerate(labels) if "compute" in label)
    axis_rows = {row for row, label in enumerate(labels) if "│" in label}
    assert axis_rows == set(range(top + 1, foot + 1)), "that of the longest phase"


def test_how_far_bars_go_beyond_their_scale_stands_where_there_are_no_bars() -> None:
    state = trained()
    event = replace(stepped(0, 61, data=0.01, compute=0.06, sync=3.0))
    apply_record(state, Record(0, 0, 5_000, START + 30, event))
    drawn = draw(state, PHASES)
    found = make_frame(drawn.curves, drawn.options, 80, 12)
    assert found
    rows = ["".join(found.picture.characters(row)) for row in range(len(found.row_ends))]
    assert any("longest 3.00 s" in row for row in rows)
    assert not any("longest" in text for text in texts_at_right(found)), "that would take columns"
    levels = {chr(sign) for sign in found.picture.sign.flat if sign}
    assert levels <= {*LEVELS[0], *"longest 3.00 s"}
    bars = draw(trained(), PHASES)
    plain_frame = make_frame(bars.curves, bars.options, 80, 12)
    assert plain_frame
    assert "longest" not in "".join(map(chr, plain_frame.picture.sign.flat))


def with_tests(*losses: float) -> RunState:
    """A run that has tested after each tenth step, so many times."""
    state = trained()
    for index, loss in enumerate(losses):
        step = 10 * (index + 1)
        event = Evaluated(0, index, step, loss, 1 - loss, 100, 1.0)
        apply_record(state, Record(0, 0, 10**5 + index, START + 20 + index, event))
    return state


def cells(state: RunState, kind: ChartKind = LOSS, width: int = 80, height: int = 16) -> str:
    """What a chart looks like."""
    drawn = draw(state, kind)
    frame = make_frame(drawn.curves, drawn.options, width, height, marks=drawn.marks)
    assert frame
    rows = enumerate(texts_at_right(frame))
    return "\n".join("".join(frame.picture.characters(row)) + ends for row, ends in rows)


def test_tests_are_a_line_with_a_sign_at_the_best_and_its_value_at_the_end() -> None:
    state = with_tests(0.6, 0.316, 0.29, 0.305, 0.313)
    (test,) = [curve for curve in draw(state).curves if curve.signed]
    assert list(test.mean) == [0.6, 0.316, 0.29, 0.305, 0.313]
    state.phase = RunPhase.ENDED
    looks = cells(state)
    assert looks.count("◆") == 1
    assert "test 0.3130" in looks
    assert f"train {format.loss(find_training_loss(state))}" in looks, (
        "its value is that above the chart"
    )
    (best,) = test.signed
    assert test.mean[best] == 0.29


def test_names_at_the_ends_of_curves_keep_to_their_own_margin() -> None:
    for height in (3, 6, 12):
        for width in (30, 50, 80, 200):
            state = with_tests(0.06, 0.055, 0.052)
            drawn = draw(state)
            frame = make_frame(drawn.curves, drawn.options, width, height)
            assert frame
            texts = texts_at_right(frame)
            named = [text.split()[0] for text in texts if text.strip()]
            assert named in ([], ["test", "train"], ["train", "test"])
            assert len({len(text) for text in texts}) == 1


def test_the_best_accuracy_is_the_highest() -> None:
    (test,) = [curve for curve in draw(with_tests(0.6, 0.2, 0.3), ACCURACY).curves if curve.signed]
    assert test.mean[test.signed[0]] == pytest.approx(80.0)
    state = with_tests(0.6, 0.2, 0.3)
    state.phase = RunPhase.ENDED
    assert "test 70.0%" in cells(state, ACCURACY)


def test_a_test_and_a_checkpoint_are_marks() -> None:
    state = trained()
    apply_record(state, Record(0, 0, 2_000, START + 20, Evaluated(0, 6, 60, 0.4, 0.9, 100, 1.0)))
    apply_record(state, Record(0, 0, 2_001, START + 21, Saved(0, 6, 60, 0.1, 5)))
    assert draw(state).marks == ((60.0, "T"), (60.0, "C"))
    assert draw(state, view=ChartView(marks=False)).marks == ()


def with_losses(losses: Sequence[float], ranks: int = 1) -> RunState:
    history = History(plan(ranks)).training(steps=0, total=len(losses))
    state = history.state()
    for step, loss in enumerate(losses, 1):
        for rank in range(ranks):
            event = replace(stepped(rank, step), loss=loss)
            apply_record(state, Record(rank, 0, 1_000 + step, START + 10 + step / 10, event))
    return state


def test_values_over_decades_have_a_logarithmic_axis_which_can_be_changed_and_is_said() -> None:
    for ratio, is_log in ((100.0, True), (10.0, False)):
        state = with_losses([2.0 * ratio ** (-step / 100) for step in range(100)])
        drawn = draw(state, view=ChartView())
        assert drawn.options.log_y is is_log
        text, _ = values.heading(drawn, LOSS, ChartView(), 60)[0]
        assert ("log" in text) is is_log
        assert not draw(state, view=ChartView(log_y=False)).options.log_y
        assert draw(state, view=ChartView(log_y=True)).options.log_y


def test_a_loss_that_diverged_is_drawn_from_its_first_step_with_a_sign_where_it_rose() -> None:
    losses = [2.3, 2.4, *(7_000.0 + 3_000 * (step % 2) for step in range(60))]
    drawn = draw(with_losses(losses, ranks=2), view=ChartView())
    assert drawn.options.log_y
    assert drawn.smoothing == 0
    assert not any(curve.band for curve in drawn.curves)
    for width, height in ((78, 6), (56, 12), (120, 30)):
        frame = make_frame(drawn.curves, drawn.options, width, height)
        assert frame
        assert frame.y_axis
        assert frame.y_axis.low < 2.3
        assert frame.y_axis.high > 10_000
        ((_, column),) = np.argwhere(frame.picture.sign == ord("▲")).tolist()
        cells_per_step = frame.picture.dots.shape[1] / 61
        assert abs(column - 2 * cells_per_step) <= 1 + cells_per_step
        assert drawn.options.alarm
        assert drawn.options.alarm.text.startswith("diverged, step ")
    assert draw(with_losses([2.0] * 60), view=ChartView()).options.alarm is None


def test_of_a_run_that_diverged_no_test_is_called_the_best() -> None:
    for size, has_best in ((1e-4, True), (1.0, False)):
        later_losses = (size * (7_000 + 3_000 * (step % 2)) for step in range(60))
        state = with_losses([2.3, 2.4, *later_losses], ranks=2)
        for epoch, accuracy in enumerate((0.2, 0.1, 0.3), 1):
            tested = Evaluated(0, epoch, 20 * epoch, 5.0, accuracy, 100, 1.0)
            apply_record(state, Record(0, 0, 10**5 + epoch, START + 40 + epoch, tested))
        for kind in (LOSS, ACCURACY):
            drawn = draw(state, kind, ChartView())
            title = "".join(part for part, _ in values.heading(drawn, kind, ChartView(), 80))
            assert "test " in title
            word = "best" if kind is ACCURACY else "lowest"
            assert (word in title) == has_best
            assert ("◆" in cells(state, kind)) == has_best
            assert has_best or "best" not in cells(state, kind)


def test_a_title_says_how_far_a_value_is_from_that_of_the_pinned_run() -> None:
    half = with_losses([2.0] * 60)
    for losses, text in (([1.0] * 60, "(-50%)"), ([3.0] * 60, "(+50%)"), ([2.0] * 60, "(+0%)")):
        baseline = Baseline("old", half)
        drawn = make_drawing(with_losses(losses), LOSS, ChartView(), baseline=baseline)
        parts = values.heading(drawn, LOSS, ChartView(), 60)
        assert f"╌ old 2.00 {text}" in "".join(part for part, _ in parts)


def test_a_peak_and_the_first_steps_make_no_axis_logarithmic() -> None:
    losses = [900.0, 300.0, *[1.0 + step % 7 / 7 for step in range(200)]]
    losses[100] = 5_000.0
    assert not draw(with_losses(losses), view=ChartView()).options.log_y


def test_shares_stay_on_a_linear_axis() -> None:
    state = trained()
    for step in range(100):
        sample = HostSample((1.0 if step < 50 else 99.0,), 5, 9, 0, 0)
        apply_record(state, Record(0, 0, 3_000 + step, START + 30 + step, sample))
    kind = next(kind for kind in available(state) if kind.id == "cores")
    assert not draw(state, kind, ChartView()).options.log_y


def test_once_a_run_is_warm_the_axis_of_the_accuracy_is_that_of_the_later_steps() -> None:
    history = History(plan(1)).training(steps=0, total=200)
    state = history.state()
    for step in range(1, 201):
        event = replace(stepped(0, step, samples=100, correct=min(5 * step, 98)), loss=1.0)
        apply_record(state, Record(0, 0, 1_000 + step, START + 10 + step / 10, event))
    for index, (step, accuracy) in enumerate(((5, 0.2), (100, 0.88), (200, 0.89))):
        tested = Evaluated(0, index, step, 0.4, accuracy, 100, 1.0)
        apply_record(state, Record(0, 0, 10**5 + index, START + 40 + index, tested))
    drawn = draw(state, ACCURACY)
    frame = make_frame(drawn.curves, drawn.options, 80, 12)
    assert frame
    assert frame.y_axis
    assert 80 < frame.y_axis.low <= 88
    assert 98 <= frame.y_axis.high <= 100
    assert "▼" not in cells(state, ACCURACY), "there is no room for the value of the first steps"


def test_only_noisy_losses_are_smoothed_and_never_a_rate_or_memory() -> None:
    dice = random.Random(3)
    noisy = with_losses([2.0 + dice.random() for _ in range(100)])
    even = with_losses([2.0 - step / 100 for step in range(100)])
    for step in range(100):
        memory = RankSample(0, dice.uniform(0, 100), dice.randrange(1 << 30))
        apply_record(noisy, Record(0, 0, 3_000 + step, START + 30 + step, memory))
    assert draw(noisy, view=ChartView()).smoothing == 0.9
    assert draw(even, view=ChartView()).smoothing == 0
    for kind in available(noisy):
        if kind.id not in ("loss", "accuracy"):
            assert draw(noisy, kind, ChartView()).smoothing == 0, kind.id
    assert draw(even, view=ChartView().smoothed(1, 0.0)).smoothing == 0.5, "one may ask for it"


def test_one_host_has_no_band() -> None:
    state = trained()
    for step in range(100):
        sample = HostSample((10.0 + step % 9,), 5 + step % 9, 99, 0, 0)
        apply_record(state, Record(0, 0, 3_000 + step, START + 30 + step, sample))
    kind = next(kind for kind in available(state) if kind.id == "host_memory")
    for mode in CurveMode:
        assert not any(curve.band for curve in draw(state, kind, ChartView(mode=mode)).curves)


def test_a_run_that_is_over_fills_the_width_of_a_chart() -> None:
    for steps in (60, 77, 100, 129):
        state = History(plan(1)).training(steps=steps).done(0).closed()
        for width in (50, 67, 140):
            drawn = draw(state)
            frame = make_frame(drawn.curves, drawn.options, width, 12)
            assert frame
            columns = np.flatnonzero(frame.picture.dots.any(axis=0))
            assert columns[0] < width / 15, "the first steps may lie above the axis"
            assert columns[-1] == frame.picture.dots.shape[1] - 1


def test_what_lies_beyond_the_axis_is_not_drawn_at_its_edge() -> None:
    values = np.array([5.0] * 10 + [0.5] * 10)
    curve = Curve("", 0, np.arange(20.0), values, values, values)
    columns = raster.to_columns(curve, Axis(0.0, 19.0), 40, log=False)
    picture = raster.draw_lines([columns], 0.0, 1.0, 4)
    first_cells = picture.dots[:, :9]
    assert not first_cells.any()
    assert picture.dots[:, 11:].any(axis=0).all()


def test_charts_come_as_soon_as_there_is_something_to_see() -> None:
    state = RunState(plan(2))
    assert [kind.id for kind in available(state)] == ["loss", "phases", "accuracy"]
    state = trained(ranks=2)
    names = [kind.id for kind in available(state)]
    assert {"throughput", "seconds"} < set(names)
    assert not {"staleness", "bytes", "host_cpu"} & set(names), "all of these are 0"
    apply_record(state, Record(0, 0, 3_000, START + 30, RankSample(0, 50.0, 1 << 30)))
    apply_record(state, Record(0, 0, 3_001, START + 30, HostSample((10.0,), 5, 9, 0, 0)))
    apply_record(
        state, Record(0, 0, 3_002, START + 30, StepFinished(0, 7, 61, 1.0, 0.1, staleness=3))
    )
    assert {"staleness", "memory", "host_memory", "cores"} < {kind.id for kind in available(state)}
    assert len({kind.id for kind in available(state)}) == len(available(state))


# Zooming ------------------------------------------------------------------------------------------


def test_zooming_keeps_the_place_and_ends_at_the_whole() -> None:
    closer = ChartView().zoomed(2, 25.0, WHOLE, ENDS)
    assert closer.window == (12.5, 62.5)
    axis = Axis(*closer.window)
    assert closer.zoomed(0.5, 25.0, axis, ENDS).window is None
    assert closer.zoomed(2, 25.0, axis, ENDS).window == (18.75, 43.75)


def test_panning_stops_at_the_ends() -> None:
    view = ChartView(window=(20.0, 40.0))
    axis = Axis(20.0, 40.0)
    assert view.panned(0.5, axis, ENDS).window == (30.0, 50.0)
    assert view.panned(-9, axis, ENDS).window == (0.0, 20.0)
    assert view.panned(9, axis, ENDS).window == (80.0, 100.0)


def test_following_shows_the_newest_part_of_what_grows() -> None:
    view = ChartView().followed(WHOLE, ENDS)
    assert view.visible_range(ENDS) == (75.0, 100.0)
    assert view.visible_range((0.0, 180.0)) == (155.0, 180.0)
    assert view.whole().visible_range(ENDS) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_sequence_of_keys_leaves_what_there_is_to_see(seed: int) -> None:
    dice, view = random.Random(seed), ChartView()
    for _ in range(300):
        log = dice.random() < 0.3
        low, high = view.visible_range((1.0, 1e4)) or (1.0, 1e4)
        axis, ends = Axis(low, high, log), (1.0, 1e4)
        match dice.randrange(4):
            case 0:
                view = view.zoomed(dice.choice([0.5, 2, 8]), dice.uniform(low, high), axis, ends)
            case 1:
                view = view.panned(dice.uniform(-2, 2), axis, ends)
            case 2:
                view = view.followed(axis, ends)
            case _:
                view = view if dice.random() < 0.9 else view.whole()
        low, high = view.visible_range(ends) or ends
        assert low < high
        assert high > 0.9
        assert low < 1.1e4


def test_a_view_of_the_last_steps_is_fine_grained() -> None:
    state = RunState(plan(1))
    apply_record(
        state, Record(0, 0, 1, START, Started(0, 1, 1, "cpu", "gloo", "2", 1, 1, 9_999, 1, 1, 1))
    )
    for step in range(1, 5_001):
        apply_record(
            state, Record(0, 0, 1 + step, START + step, StepFinished(0, 1, step, float(step), 0.1))
        )
    assert len(draw(state).lines[0].x) <= 1024
    near = draw(state, view=ChartView(tail=200.0, smoothing=0.0))
    assert list(near.lines[0].x[-200:]) == list(range(4_801, 5_001))
    window = draw(state, view=ChartView(window=(4_900.0, 4_950.0), smoothing=0.0))
    x = window.lines[0].x
    assert ((x >= 4_900) & (x <= 4_950)).sum() == 51


# Smoothing and values -----------------------------------------------------------------------------


def test_the_average_is_not_pulled_to_its_first_value_and_passes_over_gaps() -> None:
    steps = np.arange(1.0, 7.0)
    even = smooth(steps, np.array([2.0, 4.0, math.nan, 4.0, math.inf, 4.0]), 0.5)
    weights = 0.5 ** np.arange(6.0)
    last = (weights[[5, 4, 2, 0]] @ [2, 4, 4, 4]) / weights[[5, 4, 2, 0]].sum()
    fourth = (weights[[3, 2, 0]] @ [2, 4, 4]) / weights[[3, 2, 0]].sum()
    assert list(even) == pytest.approx([2, 10 / 3, math.nan, fourth, math.nan, last], nan_ok=True)
    assert list(smooth(steps, np.full(6, 3.0), 0.9)) == pytest.approx([3.0] * 6)


def test_the_average_is_as_exact_over_many_steps_as_one_by_one() -> None:
    dice = random.Random(5)
    steps = np.cumsum([dice.choice([1.0, 2.0, 50.0]) for _ in range(4_000)])
    values = np.array([dice.gauss(2, 1) if dice.random() < 0.9 else math.nan for _ in steps])
    size = 2.0 ** math.floor(math.log2((steps[-1] - steps[0]) / SMOOTHED_STEPS))
    for weight in (1e-9, 0.5, 0.9, 0.999):
        wanted, total, count, before = [], 0.0, 0.0, steps[0]
        for step, value in zip(steps, values, strict=True):
            share = weight ** ((step - before) / size)
            known = math.isfinite(value)
            total, count = total * share + (value if known else 0), count * share + known
            wanted.append(total / count if known else math.nan)
            before = step
        assert smooth(steps, values, weight) == pytest.approx(np.array(wanted), nan_ok=True)


def test_the_cursor_tells_the_mean_and_who_has_the_least_and_the_greatest() -> None:
    state = trained()
    view = ChartView(cursor=10.2, smoothing=0.0)
    told = values.cursor_text(draw(state, view=view), LOSS, view)
    assert told == "step 10  mean 0.310  min 0.290 (rank 2)  max 0.350 (rank 3)"
    each = structs.replace(view, mode=CurveMode.EACH)
    told = values.cursor_text(draw(state, view=each), LOSS, each)
    assert told == "step 10  0 0.300  1 0.300  2 0.290  3 0.350"
    told = values.cursor_text(draw(state, PHASES, view), PHASES, view)
    assert told == "step 10  data 10 ms  compute 60 ms  sync 30 ms"


@pytest.mark.parametrize(
    ("kind", "room", "told"),
    [
        (LOSS, 60, "step 10  mean 0.310  min 0.290 (rank 2)  max 0.350 (rank 3)"),
        (LOSS, 58, "step 10  mean 0.310  min 0.290  max 0.350"),
        (LOSS, 40, "step 10  0.310 (0.290 to 0.350)"),
        (PHASES, 48, "step 10  data 10 ms  compute 60 ms  sync 30 ms"),
    ],
)
def test_where_there_is_little_room_the_cursor_tells_less(
    kind: ChartKind, room: int, told: str
) -> None:
    view = ChartView(cursor=10.2, smoothing=0.0)
    assert values.heading(draw(trained(), kind, view), kind, view, room) == [(told, -1)]


def test_the_cursor_goes_from_point_to_point() -> None:
    drawn, axis = draw(trained()), Axis(0.0, 60.0)
    view = ChartView()
    at = []
    for by in (-1, -1, -1, 1, 1, 1):
        view = structs.replace(view, cursor=values.next_cursor(drawn, view, axis, by))
        at.append(view.cursor)
    assert at == [60, 59, 58, 59, 60, 60]
    assert values.next_cursor(draw(RunState(plan(1))), ChartView(), axis, 1) is None


def test_a_heading_says_how_a_chart_is_drawn_and_names_its_curves() -> None:
    state = trained()
    each = ChartView(mode=CurveMode.EACH, log_y=True, smoothing=0.9)
    parts = values.heading(draw(state, view=each), LOSS, each, 60)
    loss_text = format.loss(find_training_loss(state))
    assert "".join(text for text, _ in parts) == f"mean {loss_text}  log  ●0 ●1 ●2 ●3 "
    parts = values.heading(draw(state, view=each), LOSS, each, 26)
    assert "".join(text for text, _ in parts).endswith("  ●0 ●1 …")
    assert values.heading(draw(RunState(plan(2))), LOSS, ChartView(), 60) == [("", -1)]


def test_the_sign_of_the_only_curve_stands_apart_from_its_name() -> None:
    each = ChartView(mode=CurveMode.EACH, smoothing=0.0)
    parts = values.heading(draw(trained(ranks=1), view=each), LOSS, each, 60)
    assert "".join(text for text, _ in parts).endswith("  ● 0 ")


def test_only_what_is_done_per_second_of_a_step_is_a_rate() -> None:
    rates = {kind.id for kind in KINDS for curve in draw(trained(), kind).curves if curve.is_rate}
    assert rates == {"throughput", "bytes"}


def test_a_heading_tells_the_figure_of_the_rank_that_is_seen_against_the_mean() -> None:
    one = ChartView(mode=CurveMode.ONE, one=2, smoothing=0.0)
    state = trained()
    parts = values.heading(draw(state, view=one), LOSS, one, 60)
    loss_text = format.loss(state.ranks[2].recent_loss)
    assert "".join(text for text, _ in parts) == f"rank 2 {loss_text}  ●mean ●2 "


@pytest.mark.parametrize(
    ("room", "legend"),
    [
        (64, "  ● mean  ░ all ranks  test 0.5000"),
        (44, "  ░ all ranks  test 0.5000"),
        (38, "  ░ all ranks  test 0.5000"),
        (37, "  test 0.5000"),
        (26, "  test 0.5000"),
        (25, "  test 0.5000"),
        (24, ""),
    ],
)
def test_the_mean_its_band_and_tests_are_named(room: int, legend: str) -> None:
    state = trained()
    for test_loss, step in ((0.4, 30), (0.5, 60)):
        tested = Evaluated(0, 1, step, test_loss, 0.7, 100, 1.0)
        apply_record(state, Record(0, 0, 10**6, 9e9, tested))
    parts = values.heading(draw(state, view=ChartView()), LOSS, ChartView(), room)
    assert (
        "".join(text for text, _ in parts)
        == f"train {format.loss(find_training_loss(state))}{legend}"
    )


def test_an_average_is_named_with_its_dots() -> None:
    drawn = make_drawing(with_tests(0.5), LOSS, ChartView(smoothing=0.9))
    parts = values.heading(drawn, LOSS, ChartView(smoothing=0.9), 80)
    text = "".join(text for text, _ in parts)
    assert text.startswith("train 0.")
    assert text.endswith("  · step  ● ema .9  ░ all ranks  ◆ test 0.5000 (lowest)")


def test_the_band_is_named_rather_than_that_the_newest_test_is_the_best() -> None:
    view = ChartView(smoothing=0.9)
    parts = values.heading(make_drawing(with_tests(0.5), LOSS, view), LOSS, view, 42)
    text = "".join(text for text, _ in parts)
    assert text.endswith("  ░ all ranks  ◆ test 0.5000")


def test_a_low_chart_has_lines_alone_and_names_nothing_else() -> None:
    view = ChartView(smoothing=0.9)
    drawn = make_drawing(with_tests(0.5), LOSS, view)
    for height, has_more in ((9, False), (10, True)):
        shown = drawn.for_height(height)
        text = "".join(text for text, _ in values.heading(shown, LOSS, view, 80))
        assert "ema .9" in text
        assert ("all ranks" in text) is ("· step" in text) is has_more
        frame = make_frame(drawn.curves, drawn.options, 70, height)
        assert frame
        assert (frame.picture.band != NO_COLOUR).any() == has_more
        faint_cells = (frame.picture.curve >= FAINT) & (frame.picture.dots > 0)
        assert faint_cells.any() == has_more


def test_a_loss_over_more_than_a_decade_has_a_log_axis_in_a_low_chart() -> None:
    drawn = draw(with_losses(np.geomspace(2.3, 0.15, 60).tolist()), view=ChartView())
    assert not drawn.for_height(20).options.log_y
    assert drawn.for_height(5).options.log_y
    chosen = ChartView(log_y=False)
    drawn = draw(with_losses(np.geomspace(2.3, 0.15, 60).tolist()), view=chosen)
    assert not drawn.for_height(5).options.log_y


def test_phases_add_up_to_the_time_of_a_step() -> None:
    drawn, view = draw(trained(), PHASES), ChartView()
    parts = values.heading(drawn, PHASES, view, 50)
    assert "".join(text for text, _ in parts) == "100 ms = data 10 ms + compute 60 ms + sync 30 ms"
    parts = values.heading(drawn, PHASES, view, 45)
    assert "".join(text for text, _ in parts) == "100 ms = 10 ms + 60 ms + 30 ms"
    assert values.heading(drawn, PHASES, view, 25) == [("100 ms", -1)]


class ChartApp(InkedApp[None]):
    """A screen with nothing but a chart."""

    def compose(self) -> ComposeResult:
        yield Charts()


async def test_a_chart_is_at_the_step_of_the_header_at_each_tick_while_a_run_is_young() -> None:
    state = History(plan(1)).training(steps=0, total=100).state()
    app = ChartApp()
    async with app.run_test() as pilot:
        panel = app.query_one(Charts)
        panel.choose(LOSS, ChartView())
        for step in range(1, 31):
            event = stepped(0, step)
            apply_record(state, Record(0, 0, 1_000 + step, START + 10 + step / 10, event))
            if step % 5 == 0:
                panel.show(state)
                await pilot.pause()
                x_axis = panel.query_one(Chart).x_axis
                assert x_axis
                assert x_axis.high >= step


# What is remembered -------------------------------------------------------------------------------


def test_charts_and_views_that_are_kept_come_up_in_each_run_of_a_kind(tmp_path: Path) -> None:
    file = tmp_path / "state" / "layouts.json"
    deck = Deck(plan(2), 3, file)
    kinds = available(trained())
    assert [deck.chart_at(place, kinds).id for place in range(3)] == ["loss", "phases", "accuracy"]
    deck.put(1, ACCURACY, kinds)
    assert deck.shown == ["loss", "accuracy", "phases"]
    deck.set_view(
        LOSS, ChartView(XAxis.TIME, CurveMode.ONE, 2, log_y=True, window=(1.0, 2.0), cursor=3.0)
    )
    assert not file.exists(), "what is not kept is not remembered"
    deck.keep()
    again = Deck(plan(2), 3, file)
    assert again.shown == deck.shown
    assert again.view(LOSS) == ChartView(XAxis.TIME, CurveMode.ONE, 2, log_y=True)
    assert Deck(plan(2, script=True), 3, file).shown == ["loss", "phases", "accuracy"]


def test_no_chart_stands_twice_beside_itself(tmp_path: Path) -> None:
    deck = Deck(plan(2, script=True), 3, tmp_path / "charts.json")
    assert deck.shown == ["loss", "phases", "accuracy"]
    assert [deck.chart_at(place, [LOSS, ACCURACY]).id for place in range(2)] == ["loss", "accuracy"]
    three = [LOSS, ChartKind("cpu", "CPU", "", ("host_cpu",)), ACCURACY]
    assert [deck.chart_at(place, three).id for place in range(3)] == ["loss", "accuracy", "cpu"]


def test_a_chart_is_put_where_it_is_asked_for_and_charts_that_a_run_lacks_are_kept(
    tmp_path: Path,
) -> None:
    file = tmp_path / "charts.json"
    remembered.remember("script", {"charts": ["loss", "gpu", "phases"]}, file)
    deck, cpu = Deck(plan(2, script=True), 3, file), ChartKind("cpu", "CPU", "", ("host_cpu",))
    kinds = [LOSS, PHASES, ACCURACY, cpu]

    def seen() -> list[str]:
        return [deck.chart_at(place, kinds).id for place in range(3)]

    assert seen() == ["loss", "phases", "accuracy"]
    deck.put(1, cpu, kinds)
    assert seen() == ["loss", "cpu", "phases"]
    deck.put(2, cpu, kinds)
    assert seen() == ["loss", "phases", "cpu"]
    deck.keep()
    again = Deck(plan(2, script=True), 3, file)
    assert [again.chart_at(place, [*kinds, GPU]).id for place in range(3)] == [
        "loss",
        "gpu",
        "phases",
    ]


def test_the_loss_keeps_the_first_place(tmp_path: Path) -> None:
    file = tmp_path / "charts.json"
    remembered.remember("script", {"charts": ["phases", "loss"]}, file)
    deck = Deck(plan(2, script=True), 3, file)
    kinds = [LOSS, PHASES, ACCURACY]
    assert deck.put(0, ACCURACY, kinds) == 1, "it goes to the second place"
    assert [deck.chart_at(place, kinds).id for place in range(3)] == ["loss", "accuracy", "phases"]
    assert deck.put(2, LOSS, kinds) == 0, "the loss is where it was"
    assert [deck.chart_at(place, kinds).id for place in range(3)] == ["loss", "accuracy", "phases"]
    assert deck.put(0, LOSS, [LOSS]) == 0


def test_a_reset_brings_back_the_standard_charts_and_forgets_what_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "charts.json"
    deck = Deck(plan(2), 3, file)
    deck.put(1, ACCURACY, available(trained()))
    deck.set_view(LOSS, structs.replace(deck.view(LOSS), log_y=True))
    deck.keep()
    deck.reset()
    for standard in (deck, Deck(plan(2), 3, file)):
        assert standard.shown == ["loss", "phases", "accuracy"]
        assert not standard.view(LOSS).log_y


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"script": 3}', '{"script": {"charts": 3, "views": []}}', "\0",
        '{"script": {"charts": ["no", 7], "views": {"loss": 3}}}',
        '{"script": {"views": {"loss": {"along": 3, "mode": [], "one": -4, "smoothing": 7.0}}}}',
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_not_remembered(text: str, tmp_path: Path) -> None:
    file = tmp_path / "charts.json"
    file.write_text(text)
    deck = Deck(plan(2, script=True), 3, file)
    kinds = available(RunState(plan(2)))
    assert len({deck.chart_at(place, kinds).id for place in range(3)}) == 3
    assert deck.view(LOSS) in (ChartView(), ChartView(one=0))
    deck.keep()
    assert "script" in json.loads(file.read_text())


def test_where_nothing_can_be_written_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Deck(plan(1), 3, tmp_path / "file" / "charts.json").keep()


def test_few_kinds_of_run_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "charts.json"
    for number in range(100):
        remembered.remember(f"kind {number}", {"charts": ["loss"]}, file)
    known = json.loads(file.read_text())
    assert len(known) == remembered.MOST_VALUES
    assert "kind 99" in known


# Anything -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_no_values_and_no_view_break_a_chart(seed: int) -> None:
    dice = random.Random(seed)
    odd = [math.nan, math.inf, -math.inf, 0.0, 1e308, -1e308, 5e-324, 1.0, -7.5, 2.3]
    state = RunState(plan(3))
    for step in range(1, dice.choice([2, 3, 40, 1_500])):
        rank = dice.randrange(3)
        figures = [dice.choice(odd) for _ in range(6)]
        one = StepFinished(rank, 1, step, *figures, samples=dice.randrange(3), correct=1)
        apply_record(state, Record(rank, 0, step, START + dice.random() * step, one))
    for kind in available(state):
        view = ChartView(
            dice.choice(list(XAxis)),
            dice.choice(list(CurveMode)),
            dice.randrange(5),
            log_x=dice.random() < 0.5,
            smoothing=dice.choice([0.0, 0.9]),
            tail=dice.choice([0.0, 5.0]),
            cursor=dice.choice([None, 3.0, -5.0, 1e9]),
        )
        drawn = make_drawing(state, kind, view)
        values.heading(drawn, kind, view, dice.randrange(80))
        for width, height in ((1, 1), (3, 2), (40, 10), (300, 100)):
            options = structs.replace(drawn.options, log_y=dice.random() < 0.5 and not kind.stacked)
            found = make_frame(drawn.curves, options, width, height, drawn.marks)
            if found:
                assert found.width == width


# A user's own program -----------------------------------------------------------------------------


def test_charts_of_a_program_that_prints() -> None:
    history = logging(started(script()), 3, range(1, 30), 0.5)
    kinds = available(history.state())
    assert [kind.id for kind in kinds] == ["loss", "seconds", "metric:grad_norm"]
    assert kinds[0].tests == "metric:val_loss"
    drawn = make_drawing(history.state(), kinds[0], ChartView())
    assert list(drawn.curves[-1].mean) == [1.0] * 29
    assert drawn.curves[-1].end_value == "1.0000"


@pytest.mark.parametrize(
    ("hosts", "title"), [(1, "45.0% of 2 cores"), (2, "mean 45.0% of 2 cores")]
)
def test_cpu_of_ranks_is_the_sum_of_their_cores_and_says_of_how_many(
    hosts: int, title: str
) -> None:
    history = started(plan(hosts, slots=2))
    state = history.state()
    hello = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", cores=2.0, memory=9)
    for host in state.hosts:
        host.hello = hello
    for host_index in range(hosts):
        for seq, cores in enumerate((0.1, 0.5, 0.9)):
            for rank in (2 * host_index, 2 * host_index + 1):
                event = RankSample(rank, 50.0 * cores, 1)
                apply_record(state, Record(host_index, 0, 900 + 3 * seq, history.now, event))
            sample = HostSample((9.0, 9.0), 5, 9, 0, 0)
            apply_record(state, Record(host_index, 0, 902 + 3 * seq, history.now + seq, sample))
    kind = next(kind for kind in KINDS if kind.id == "host_cpu")
    view = ChartView(mode=CurveMode.EACH)
    assert values.heading(draw(state, kind, view), kind, view, 80)[0][0].startswith(title)


def test_charts_of_a_program_that_is_watched() -> None:
    history = started(script(watch=True))
    for step in range(1, 9):
        history.rank(0, seen(0, step, data=0.1, compute=0.3, sync=0.1, ready=0.4))
        history.rank(0, said(0, line(step, 2.0, kl=0.5), "stdout"))
    kinds = available(history.state())
    # The times of whole steps come late: the phases show them as well. Those in which ranks are
    # busy come last: where they differ, the map of ranks shows it.
    assert [kind.id for kind in kinds] == ["loss", "phases", "metric:kl", "seconds", "ready"]
    assert kinds[0].series == ("metric:loss",), "the watch does not know it"


def test_time_until_the_data_alone_splits_nothing() -> None:
    history = started(script())
    for step in range(1, 9):
        text = line(step, 2.0, data_time=0.1, step_time=0.5)
        history.rank(0, said(0, text, "stdout"))
    assert "phases" not in {kind.id for kind in available(history.state())}
