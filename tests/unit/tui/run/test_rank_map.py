"""The map of ranks over time and over one step, and the line of the phases of a step."""

from __future__ import annotations

import math

import pytest
from textual.color import Color

from remote.run.run_state import RunState
from remote.run.series.step_times import Means
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan, stepped
from tests.kit.looks import render_strips
from training.wire.rank_events import StepFinished
from tui.kit import palette
from tui.kit.inks import DARK
from tui.kit.widgets.table import TableCell
from tui.run.components.phase_line import phase_line
from tui.run.components.rank_cells import PHASES, RowContext, TrendScale
from tui.run.components.rank_columns import RANK_COLUMNS
from tui.run.components.rank_map import MapLine, lateness_scale, over_step, over_time
from tui.run.rank_map_panel import RankMapPanel


def trained(ready: dict[int, float], steps: int = 40, late_from: int = 0) -> RunState:
    """Ranks are busy for so many seconds of each step; rank 0 thrice as long from a step on."""
    history = History(plan(len(ready))).training()
    for step in range(1, steps + 1):
        for rank, seconds in ready.items():
            is_late = rank == 0 and 0 < late_from <= step
            figures = stepped(
                rank, step, 0.5, ready=seconds * (3 if is_late else 1), compute=seconds, sync=0.1
            )
            history.rank(rank, figures)
    return history.state()


def cells(line: MapLine) -> list[tuple[str, str]]:
    return [(cell.text, cell.style) for cell in line.cells]


def test_a_rank_that_becomes_late_turns_dark_where_it_does() -> None:
    run = trained({0: 0.1, 1: 0.1, 2: 0.1}, steps=80, late_from=41)
    late, *others = over_time(run.ranks, run, "ready", 40)
    (before, calm), (behind, alarming) = cells(late)
    assert (before[0], calm) == ("░", "table--dim")
    assert (behind[0], alarming) == ("█", "table--warn")
    assert len(before) + len(behind) == 40
    assert abs(len(before) - 20) <= 1
    assert all(len(line.cells) == 1 for line in others)


def test_a_rank_without_values_is_blank_and_few_steps_fill_the_width() -> None:
    run = trained({0: 0.1, 1: 0.1, 2: math.nan}, steps=3)
    first, _, unknown = over_time(run.ranks, run, "ready", 30)
    assert cells(unknown) == [(" " * 30, "")]
    assert len("".join(cell.text for cell in first.cells).rstrip()) >= 20


def test_a_rank_with_an_absurd_time_leaves_the_others_their_step() -> None:
    run = trained({0: 0.1, 1: math.inf})
    fast, absurd = over_step(run.ranks, run, 40)
    assert fast.cells[1].text
    assert not absurd.cells[1].text


def test_one_step_has_the_phases_of_all_ranks_on_one_axis() -> None:
    history = History(plan(2)).training()
    for step in (1, 2, 3):
        history.rank(0, StepFinished(0, 1, step, 1.0, 0.1, data=0.001, compute=0.08, sync=0.019))
        history.rank(1, StepFinished(1, 1, step, 1.0, 0.1, data=0.001, compute=0.02, sync=0.079))
    run = history.state()
    slow, fast = over_step(run.ranks, run, 50)
    assert [len(cell.text) for cell in slow.cells] == [1, 39, 10]
    assert [len(cell.text) for cell in fast.cells] == [1, 9, 40]
    assert [cell.style for cell in fast.cells] == ["table--data", "table--compute", "table--sync"]
    assert slow.value == TableCell("100 ms")


@pytest.mark.parametrize("width", [20, 64, 70, 80, 200])
def test_the_line_of_the_phases_fits_and_shows_each_that_takes_time(width: int) -> None:
    line = phase_line(Means(seconds=0.1632, data=0.0002, compute=0.064, sync=0.099), width)
    assert line.cell_length <= width
    assert ("sync 99 ms 61% ▆" in line.plain) is (width > 64)
    assert ("compute 64 ms 39% ▄" in line.plain) is (width > 70)
    if width > 20:
        assert line.plain.startswith("step 163 ms  data 0.2 ms ")
        assert line.plain.count("▆") >= line.plain.count("▄") >= line.plain.count("▂") == 1


def test_a_rank_that_is_late_now_and_then_has_no_ink_of_a_state() -> None:
    run = trained({0: 0.1, 1: 0.1, 2: 0.1}, late_from=39)
    late, *_ = over_time(run.ranks, run, "ready", 40)
    assert [sign for sign, _ in cells(late)] == ["░" * 38, "██"]
    assert {style for _, style in cells(late)} == {"table--dim"}


async def test_ranks_that_are_alike_leave_their_place_to_a_chart_and_their_key_says_so() -> None:
    stage = Stage(hosts=4, slots=1)
    async with stage.training(size=(120, 40)) as pilot:
        map_panel = stage.screen.query_one(RankMapPanel)
        assert not map_panel.display
        await pilot.press(str(map_panel.number))
        await until(pilot, lambda: "all alike: no rank has held up the others" in stage.text())
        stage.session.steps(61, 120, late=1)
        await until(pilot, lambda: "alike ▒ 1.1x █ 2x █ slow" in stage.text())
        assert map_panel.display


async def test_a_key_shows_one_step_instead_of_all() -> None:
    stage = Stage(hosts=4, slots=1)
    async with stage.shown(size=(120, 40)) as pilot:
        stage.session.start()
        stage.session.steps(1, 60, late=2)
        await until(pilot, lambda: "ranks over time" in stage.text())
        await pilot.press(str(stage.screen.query_one(RankMapPanel).number), "x")
        await until(pilot, lambda: "one step by rank" in stage.text())
        await until(
            pilot, lambda: any("1 node2" in line and "▄▄▄▄▆" in line for line in panel(stage))
        )
        await pilot.press("x")
        await until(pilot, lambda: "ranks over time" in stage.text())


async def test_the_signs_of_the_phases_have_the_inks_of_the_bars() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(200, 60)) as pilot:
        await until(pilot, lambda: any("one step" in line for line in panel(stage)))
        region = stage.screen.query_one(RankMapPanel).region
        strips = [strip.crop(region.x, region.right) for strip in render_strips(stage.app)]
        heading = next(strip for strip in strips if "one step" in strip.text)
        for phase in PHASES:
            column = heading.text.index(f"{palette.sign(phase)} {phase}")
            (swatch,) = heading.crop(column, column + 1)
            ink = Color.parse(stage.app.theme_variables[f"ink-{phase}"]).rich_color
            assert swatch.style is not None
            assert swatch.style.color == ink


async def test_where_it_has_no_room_the_map_takes_the_place_of_the_chart() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 100 ms  data 5.0 ms" in stage.text())
        assert "ranks over time" not in stage.text()
        await pilot.press(str(stage.screen.query_one(RankMapPanel).number))
        await until(pilot, lambda: "ranks over time" in stage.text())
        assert " loss" not in stage.text().splitlines()[3]


def panel(stage: Stage) -> list[str]:
    region = stage.screen.query_one(RankMapPanel).region
    lines = stage.text().splitlines()[region.y : region.bottom]
    return [line[region.x : region.right] for line in lines]


@pytest.mark.parametrize("is_over", [False, True])
def test_one_step_takes_as_long_as_the_table_of_ranks_says(is_over: bool) -> None:
    history = History(plan(2)).training()
    for step in range(1, 61):
        for rank in range(2):
            seconds = 0.5 if step < 30 else 0.1
            history.rank(rank, stepped(rank, step, seconds, compute=seconds))
    if is_over:
        history.done(0, 1).closed()
    run = history.state()
    column = next(column for column in RANK_COLUMNS if column.name == "per step")
    scale = TrendScale("ready", [], 0.0)
    context = RowContext(run.ranks[:1], run, now=run.now, inks=DARK, scale=scale)
    assert over_step(run.ranks, run, 40)[0].value.text == column.cell(context).text


def test_the_scale_names_the_ink_of_a_slow_rank() -> None:
    scale = lateness_scale()
    (slow,) = [span for span in scale.spans if "slow" in scale.plain[span.start : span.end]]
    assert slow.style == "$text-warning"
