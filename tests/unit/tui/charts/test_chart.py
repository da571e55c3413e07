"""The chart: what it draws, and that no size and no values break it."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from msgspec import structs
from textual.app import App, ComposeResult
from textual.events import Resize

from remote.run.series.definitions import Unit
from tests.kit.acted import until
from tui.charts import axis, raster
from tui.charts.annotations import StepLabel
from tui.charts.chart import Chart
from tui.charts.plot_frame import PlotFrame, PlotOptions, make_frame, picture_axes
from tui.charts.raster import ASCII, BRAILLE, NO_COLOUR, Curve
from tui.kit import palette
from tui.kit.inks import LINE, TEST
from tui.kit.themes import InkedApp

NAN = float("nan")
STEPS = PlotOptions("step")


def curve(
    values: Sequence[float], colour: int = 0, x: Sequence[float] | None = None, spread: float = 0.0
) -> Curve:
    mean = np.array(values, float)
    at = np.arange(1, len(values) + 1, dtype=float) if x is None else np.array(x, float)
    return Curve(str(colour), colour, at, mean - spread, mean + spread, mean)


def drawn(found: PlotFrame | None, colour: int = 0) -> set[tuple[int, int]]:
    """The cells (row, column) that a colour has."""
    assert found is not None
    return {
        (int(row), int(column))
        for row, column in zip(*np.nonzero(found.picture.curve == colour), strict=True)
    }


def test_a_falling_line_goes_from_the_upper_left_to_the_lower_right() -> None:
    found = make_frame([curve([3, 2, 1, 0])], STEPS, 40, 10)
    cells = drawn(found)
    assert min(cells)[0] == 0
    assert max(cells)[0] == 8
    columns = [column for _, column in sorted(cells)]
    assert columns == sorted(columns)


def test_the_line_is_unbroken_however_steep() -> None:
    picture = raster.draw_lines(
        [raster.to_columns(curve([0, 1, 0, 1]), axis.Axis(1, 4), 40, False)], 0.0, 1.0, 20
    )
    for column in range(20):
        rows = np.flatnonzero(picture.dots[:, column])
        assert rows.size
        assert rows.max() - rows.min() + 1 == rows.size


def test_nan_is_a_gap() -> None:
    whole = drawn(make_frame([curve([1, 1, 1, 1, 1])], STEPS, 60, 8))
    gap = drawn(make_frame([curve([1, 1, NAN, 1, 1])], STEPS, 60, 8))
    assert gap < whole
    missing = sorted(column for _, column in whole - gap)
    assert missing == list(range(missing[0], missing[-1] + 1))


def test_a_spike_among_many_points_stays() -> None:
    values = [1.0] * 20_000
    values[7_321] = 9.0
    found = make_frame([curve(values)], PlotOptions("step", from_zero=True), 80, 20)
    assert found is not None
    top = int(np.argmax((found.picture.band != NO_COLOUR).any(1)))
    line = min(drawn(found))[0]
    assert top < line - 5


def test_a_band_lies_between_low_and_high() -> None:
    found = make_frame([curve([5.0] * 50, spread=2.0)], PlotOptions("step", from_zero=True), 60, 21)
    assert found is not None
    rows = np.flatnonzero((found.picture.band == 0).any(1))
    line = min(drawn(found))[0]
    assert rows.min() < line < rows.max()


def test_curves_that_meet_take_turns() -> None:
    found = make_frame([curve([1, 1, 1], colour) for colour in range(4)], STEPS, 60, 8)
    assert all(drawn(found, colour) for colour in range(4))


def test_tests_and_the_mean_never_have_dots_in_the_ink_of_the_other() -> None:
    def draw(*curves: Curve) -> raster.DotPicture:
        columns = [raster.to_columns(each, axis.Axis(1, 4), 80, False) for each in curves]
        return raster.draw_lines(columns, 0.0, 3.0, 8)

    mean, test = curve([1, 1, 1, 1], LINE), curve([1.1, 1.1, 1.1, 3], TEST)
    picture = draw(mean, test)
    is_shared = picture.count == 2
    for each in (mean, test):
        in_its_ink = is_shared & (picture.curve == each.colour)
        assert in_its_ink.sum() > 10, "it is seen where they meet"
        assert (picture.dots[in_its_ink] == draw(each).dots[in_its_ink]).all()


def test_a_single_test_is_seen_on_the_line_of_the_mean() -> None:
    point = np.array([30.0])
    values = np.array([1.0])
    test = Curve("test", TEST, point, *3 * [values], band=False)
    found = make_frame([curve([1.0] * 60, LINE), test], STEPS, 60, 8)
    assert len(drawn(found, TEST)) == 1


def test_few_tests_are_points_on_a_faint_line_that_leaves_the_mean_as_it_is() -> None:
    def draw(num_tests: int) -> PlotFrame:
        x = np.linspace(5, 55, num_tests)
        test = Curve("test", TEST, x, *3 * [np.ones(num_tests)], band=False)
        found = make_frame([curve([1.0] * 60, LINE), test], STEPS, 60, 8)
        assert found
        return found

    for num_tests in (1, 2, 5):
        assert len(drawn(draw(num_tests), TEST)) == num_tests
        assert len(drawn(draw(num_tests), LINE)) == len(drawn(draw(0), LINE)) - num_tests
    assert len(drawn(draw(40), TEST)) > 15, "many are a line"


def test_a_faint_line_joins_few_tests_where_nothing_else_is() -> None:
    x = np.array([5.0, 55.0])
    test = Curve("test", TEST, x, *3 * [np.array([9.0, 9.0])], band=False)
    found = make_frame([curve([1.0] * 60, LINE), test], STEPS, 60, 12)
    columns = sorted(column for _, column in drawn(found, TEST))
    between = {column for _, column in drawn(found, TEST + raster.FAINT)}
    assert len(columns) == 2
    assert between == set(range(columns[0] + 1, columns[1]))


def test_a_rounding_error_is_no_peak() -> None:
    values = [50.0, 100.0, 100.0 + 1e-11]
    options = structs.replace(STEPS, window=(1.0, 3.0), unit=Unit.SHARE)
    found = make_frame([curve(values)], options, 60, 8)
    assert found
    assert "▲" not in "".join(found.picture.characters(0))


def marks_of(*letters: str, width: int = 60, height: int = 14, steps: int = 60) -> PlotFrame:
    """A chart in which each of these letters marks each tenth step."""
    marks = [(float(x), letter) for letter in letters for x in range(10, steps + 1, 10)]
    found = make_frame([curve(range(steps))], STEPS, width, height, marks=marks)
    assert found
    return found


def test_marks_stand_in_a_row_of_their_own_and_are_named_below_it() -> None:
    plain = marks_of()
    marked = marks_of("T")
    assert not plain.mark_labels
    assert marked.mark_labels.count("T") == 6
    assert marked.bottom_labels.endswith("T test  step")
    shown = {chr(sign) for sign in marked.picture.sign.flat if sign}
    assert not shown, "the curve has the rest to itself"
    x_axis = marked.x_axis
    for column in (index for index, cell in enumerate(marked.mark_labels) if cell == "T"):
        place = marked.x_at(column)
        cell_width = (x_axis.high - x_axis.low) / marked.picture.dots.shape[1]
        nearest = 10 * round(place / 10)
        assert abs(nearest - place) <= 1.01 * cell_width


@pytest.mark.parametrize("steps", [60, 600, 6_000, 60_000])
def test_marks_never_touch_and_only_those_that_are_drawn_are_named(steps: int) -> None:
    found = marks_of("T", "C", "E", steps=steps)
    letters = [(column, cell) for column, cell in enumerate(found.mark_labels) if cell in "TCE"]
    assert letters
    assert all(after - before >= 3 for (before, _), (after, _) in pairwise(letters))
    named = {word for word in found.bottom_labels.split() if word in ("E", "T", "C")}
    assert named == {cell for _, cell in letters}


@pytest.mark.parametrize("epochs", [2, 7, 20, 36, 150, 1000])
@pytest.mark.parametrize("width", [80, 96, 120])
def test_each_nth_mark_is_drawn_and_n_is_said(epochs: int, width: int) -> None:
    epoch_steps = [23.0 * epoch for epoch in range(1, epochs + 1)]
    marks = [(step, letter) for step in epoch_steps for letter in "ET"] + [(46.0, "N")]
    options = structs.replace(STEPS, mark_strides={"E": 4})
    found = make_frame([curve(range(23 * epochs))], options, width, 14, marks)
    assert found
    legend = re.search(r"E (\d+) epochs", found.bottom_labels)
    assert legend, found.bottom_labels
    assert "T" not in found.mark_labels, "it would be where an epoch ends"
    stride = int(legend[1]) // 4
    inner_width = found.picture.dots.shape[1]
    columns = {
        found.left + raster.cell_at(found.x_axis.share_of(step), inner_width)
        for step in epoch_steps[::stride]
    }
    letters = {column for column, cell in enumerate(found.mark_labels) if cell in "EN"}
    note = found.left + raster.cell_at(found.x_axis.share_of(46.0), inner_width)
    assert letters == columns | {note}
    assert found.mark_labels[note] == "N"


def test_marks_that_stand_apart_from_those_of_another_letter_are_drawn() -> None:
    marks = [(float(x), letter) for x, letter in ((10, "E"), (20, "T"), (40, "E"), (50, "T"))]
    found = make_frame([curve(range(60))], STEPS, 60, 14, marks)
    assert found
    assert found.mark_labels.replace("─", "").strip(" └") == "ETET"
    assert "E epoch  T test" in found.bottom_labels


@pytest.mark.parametrize("width", range(24, 120, 8))
def test_no_letter_is_drawn_whose_name_has_no_room(width: int) -> None:
    found = marks_of("E", "C", "R", width=width)
    drawn_letters = {cell for cell in found.mark_labels if cell in "ECR"}
    assert drawn_letters == {word for word in found.bottom_labels.split() if word in "ECR"}
    assert "R" in drawn_letters or width < 50, "what is rare comes first"


def test_a_low_chart_marks_only_what_is_rare() -> None:
    for height, seen in ((14, {"T", "R"}), (8, {"R"}), (4, set())):
        marks = [(20.0, "T"), (40.0, "R")]
        found = make_frame([curve(range(60))], STEPS, 60, height, marks=marks)
        assert found
        assert {cell for cell in found.mark_labels if cell.isalpha()} == seen, height


def test_a_mark_beyond_the_axis_is_not_drawn() -> None:
    found = make_frame([curve([3, 1, 2, 4])], STEPS, 60, 14, marks=((0.0, "R"), (9.0, "R")))
    assert found is not None
    assert not found.mark_labels


def test_a_sign_where_a_run_went_wrong_stands_on_its_curve_with_its_name() -> None:
    for height in (3, 8, 20):
        values = [1.0, 1.0, 1.0, *np.geomspace(3, 900, 30)]
        options = structs.replace(STEPS, alarm=StepLabel(10.0, "diverged"), log_y=True)
        found = make_frame([curve(values)], options, 60, height)
        without = make_frame([curve(values)], structs.replace(options, alarm=None), 60, height)
        assert found
        assert without
        (cell,) = np.argwhere(found.picture.sign == ord("▲")).tolist()
        assert without.picture.dots[tuple(cell)], "the curve runs through its cell"
        rows = [
            "".join(found.picture.characters(row)) for row in range(found.picture.dots.shape[0])
        ]
        assert any("diverged" in row for row in rows)


def test_a_sign_where_a_run_went_wrong_is_on_the_line_also_in_a_cell_with_tests() -> None:
    tests = structs.replace(curve([1.0] * 30, TEST), band=False)
    for step in range(8, 16):
        options = structs.replace(STEPS, alarm=StepLabel(float(step), ""))
        found = make_frame([curve([1.0] * 30, LINE), tests], options, 60, 8)
        assert found
        ((row, _),) = np.argwhere(found.picture.sign == ord("▲")).tolist()
        assert row == min(drawn(found, TEST))[0]


# Axes ---------------------------------------------------------------------------------------------


def tick_rows(frame: PlotFrame) -> list[int]:
    return [row for row, label in enumerate(frame.row_labels) if label.strip("┤│ ")]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("log", [False, True])
def test_each_y_axis_has_two_ticks_or_more_at_equal_distances(seed: int, log: bool) -> None:
    dice = random.Random(seed)
    for _ in range(20):
        low = 10 ** dice.uniform(-5, 5)
        high = low * 10 ** dice.choice((0.0, 0.01, 0.2, 0.5, 1.6, 3.0, 8.0))
        unit = dice.choice(list(Unit))
        height = dice.randrange(4, 40)
        options = PlotOptions("step", log_y=log, unit=unit, from_zero=dice.random() < 0.5)
        found = make_frame([curve([low, high, high])], options, 80, height)
        assert found
        rows = tick_rows(found)
        assert len(rows) >= 2, (low, high, height)
        assert len({after - before for before, after in pairwise(rows)}) == 1, (low, high, height)


@pytest.mark.parametrize("low", [0.0, 31.0, 80.0, 93.0, 97.0])
def test_no_tick_of_a_share_is_above_the_whole(low: float) -> None:
    for height in range(4, 40):
        options = PlotOptions("step", unit=Unit.SHARE)
        found = make_frame([curve([low, 100.0])], options, 80, height)
        assert found
        texts = [label.strip("┤│ %") for label in found.row_labels if label.strip("┤│ ")]
        assert len(texts) >= 2, (low, height)
        assert max(map(float, texts)) <= 100


@pytest.mark.parametrize("last", [5, 7, 46, 460, 999, 12_345])
@pytest.mark.parametrize("width", [38, 58, 78, 120])
@pytest.mark.parametrize("clock", [False, True])
def test_each_x_axis_has_two_ticks_or_more(last: int, width: int, clock: bool) -> None:
    x = np.linspace(1, last, 20)
    options = PlotOptions("time" if clock else "step", clock=clock)
    found = make_frame([curve(np.arange(20.0), x=x)], options, width, 8)
    assert found
    assert sum(word[0].isdigit() for word in found.bottom_labels.split()) >= 2


def test_a_log_axis_puts_powers_of_ten_at_equal_distances() -> None:
    up = axis.log_axis(0.001, 1000)
    places = [up.share_of(10.0**power) for power in range(-3, 4)]
    assert np.allclose(np.diff(places), np.diff(places)[0])
    labels = [text for _, text in axis.number_ticks(up, 10)]
    assert labels == ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]


def test_a_short_log_axis_has_ticks_that_tell_its_scale() -> None:
    up = axis.log_axis(0.4, 2.4)
    assert [text for _, text in axis.number_ticks(up, 2)] == ["0.5", "1", "2"]


def test_a_log_axis_has_one_notation() -> None:
    options = structs.replace(STEPS, log_y=True)
    for top, has_powers in ((4e15, True), (2e4, False)):
        found = make_frame([curve([2.0, top])], options, 40, 10)
        assert found
        labels = [label.strip("┤│ ") for label in found.row_labels if label.strip("┤│ ")]
        assert len(labels) >= 3
        powers = [label for label in labels if float(label) >= 1000]
        assert all(("e" in label) is has_powers for label in powers)
        assert "+" not in "".join(labels)


def test_charts_of_several_widths_mark_the_same_steps() -> None:
    for steps in (60, 600, 6_000):
        charts = [marks_of("E", width=width, steps=steps) for width in (56, 70, 140)]
        (count,) = {chart.mark_labels.count("E") for chart in charts}
        assert count, steps


def test_what_is_not_positive_has_no_place_on_a_log_axis() -> None:
    log = structs.replace(STEPS, log_y=True)
    assert make_frame([curve([-1, 0, -3])], log, 40, 10) is None
    found = make_frame([curve([-1, 0, 3, 4])], log, 40, 10)
    assert drawn(found)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 100, ["0", "20", "40", "60", "80", "100"]),
        (-3, 2, ["-3", "-2", "-1", "0", "1", "2"]),
        (0, 50_000, ["0", "10k", "20k", "30k", "40k", "50k"]),
        (0, 0.0005, ["0", "0.0001", "0.0002", "0.0003", "0.0004", "0.0005"]),
    ],
)
def test_ticks_stand_at_nice_numbers(low: float, high: float, labels: list[str]) -> None:
    assert [text for _, text in axis.number_ticks(axis.Axis(low, high), 5)] == labels


def test_times_are_labelled_as_times() -> None:
    assert [text for _, text in axis.clock_ticks(axis.Axis(0, 125), 4)] == ["0 s", "1:00", "2:00"]


def test_steps_are_whole() -> None:
    found = make_frame([curve([3, 2, 1])], STEPS, 120, 10)
    assert found is not None
    assert found.bottom_labels.split() == ["1", "2", "step"]


def test_an_axis_that_grows_seldom_moves() -> None:
    found = [axis.steady_axis(1, float(last), 140) for last in range(1_000, 2_000)]
    assert len(set(found)) <= 20
    assert all(
        last < one.high < 1.08 * last for one, last in zip(found, range(1_000, 2_000), strict=True)
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_size_and_no_values_break_it(seed: int) -> None:
    chance = random.Random(seed)
    odd = [NAN, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-300, 1.0, -7.5, 1e15]
    for width, height in [(0, 0), (1, 1), (0, 5), (5, 0), (2, 2), (200, 60)] + [
        (chance.randrange(1, 90), chance.randrange(1, 30)) for _ in range(10)
    ]:
        curves = []
        for colour in range(chance.randrange(4)):
            size = chance.choice([0, 1, 2, 7, 300])
            values = np.array([chance.choice([*odd, chance.gauss(0, 10)]) for _ in range(size)])
            x = np.sort(
                np.array([chance.choice([*odd[3:], chance.uniform(0, 100)]) for _ in range(size)])
            )
            curves.append(Curve(str(colour), colour, x, values, values, values))
        for log in (False, True):
            for look in (STEPS, PlotOptions("time", clock=True, from_zero=True)):
                found = make_frame(curves, structs.replace(look, log_y=log), width, height)
                if found is not None:
                    assert found.num_rows == height
                    assert found.width == width


@pytest.mark.parametrize("values", [[4.0], [4.0] * 9, [0.0], [1e308, -1e308], [5e-324, 0.0]])
def test_single_constant_and_huge_values_are_visible(values: list[float]) -> None:
    assert drawn(make_frame([curve(values)], STEPS, 40, 10))


def test_braille_has_every_dot_and_ascii_is_ascii() -> None:
    assert len(BRAILLE) == len(ASCII) == 256
    assert BRAILLE[0xFF] == "⣿"
    assert ASCII.isascii()
    assert ASCII[0] == " "


class Alone(InkedApp[None]):
    """A chart and nothing else."""

    def compose(self) -> ComposeResult:
        yield Chart(STEPS)


async def test_a_band_is_painted_in_half_cells() -> None:
    app = Alone()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        for spread in (1.0, 1.7, 2.2):
            chart.draw(
                [curve([5.0] * 200, spread=spread)], options=PlotOptions("step", from_zero=True)
            )
            await pilot.pause()
            rows = [chart.render_line(row) for row in range(19)]
            column = [next(iter(strip.crop(30, 31))) for strip in rows]
            halves = sum(2 * (cell.style.bgcolor != chart.rich_style.bgcolor) for cell in column)
            halves += sum(cell.text in "▀▄" for cell in column)
            frame = make_frame([curve([5.0] * 200, spread=spread)], chart.options, 60, 20)
            assert frame
            assert frame.y_axis
            wanted = 2 * spread / (frame.y_axis.high - frame.y_axis.low) * 2 * 19
            assert abs(halves - wanted) <= 2, "half a cell at each edge"


async def test_only_the_rows_that_differ_are_drawn_again() -> None:
    app = Alone()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        chart.draw([curve([1.0, *([0.0] * 40)])])
        await pilot.pause()
        before = [chart.render_line(row) for row in range(20)]
        chart.draw([curve([1.0, *([0.0] * 39), 0.02])])
        await pilot.pause()
        after = [chart.render_line(row) for row in range(20)]
    same = [one is other for one, other in zip(before, after, strict=True)]
    assert same[0]
    assert not all(same)


class Deaf(Chart):
    """A chart that is never told of its size."""

    def on_resize(self, event: Resize) -> None:
        event.prevent_default()


async def test_a_chart_is_painted_as_a_whole_before_it_is_told_of_its_size() -> None:
    app = App[None]()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = Deaf(STEPS)
        await app.mount(chart)
        chart.draw([curve([3, 1, 2])])
        for height in (20, 12, 16):
            await pilot.resize_terminal(60, height)
            await until(pilot, lambda height=height: chart.size.height == height)
            assert chart.render_line(height - 1).text.split() == ["1", "2", "step"]


async def test_without_utf8_it_draws_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palette, "has_utf8", lambda: False)
    app = Alone()
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        chart.draw([curve([3, 1, 2], colour) for colour in range(2)])
        await pilot.pause()
        text = "\n".join(chart.render_line(row).text for row in range(20))
    assert text.isascii()
    assert "-" in text


async def test_a_chart_lives_through_any_sequence_of_sizes() -> None:
    app = Alone()
    chance = random.Random(7)
    async with app.run_test(size=(60, 20)) as pilot:
        chart = app.query_one(Chart)
        for _ in range(25):
            await pilot.resize_terminal(chance.randrange(1, 120), chance.randrange(1, 40))
            chart.draw(
                [
                    curve([chance.gauss(0, 1) for _ in range(chance.randrange(0, 50))], colour)
                    for colour in range(3)
                ],
                options=structs.replace(chart.options, log_y=chance.random() < 0.5),
            )
            await pilot.pause()
            for row in range(chart.size.height):
                assert chart.render_line(row).cell_length == chart.size.width


def test_areas_of_times_below_zero_are_none() -> None:
    x, below = np.arange(5.0), np.full(5, -1e-6)
    curves = [Curve(name, 0, x, below, below, below) for name in ("data", "compute")]
    made = make_frame(curves, PlotOptions("step", stacked=True), 40, 10)
    assert made is not None
    assert not (made.picture.sign == ord(palette.sign("compute"))).any()


def test_times_on_a_log_axis_have_no_label_at_zero() -> None:
    ticks = axis.clock_ticks(axis.Axis(1e-9, 9.0, log=True), 5)
    assert [text for _, text in ticks] == ["2 s", "4 s", "6 s", "8 s"]


def test_the_axis_of_a_picture_ends_at_values_as_round_as_those_of_a_frame() -> None:
    x = np.linspace(0, 100, 50)
    values = np.linspace(0.11, 2.13, 50)
    curve = Curve("0", 0, x, values, values, values)
    axes = picture_axes([curve], PlotOptions("step", window=(0.0, 100.0)))
    assert axes is not None
    y_axis = axes[1]
    assert y_axis.ends == pytest.approx((0.0, 2.2))
