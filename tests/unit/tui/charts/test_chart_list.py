"""The list of charts: what stands in it, what typing and enter do, and what is remembered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tui.charts.chart_list import ChartList, course
from tui.charts.panel import Charts
from tui.run.chart_grid import ChartGrid


def shown(stage: Stage) -> list[str]:
    """Return the first three charts on the screen of the run, which may have room for more."""
    return [chart.kind.id for chart in stage.screen.query(Charts) if chart.display][:3]


async def opened(stage: Stage, pilot: Pilot[None], *keys: str) -> ChartList:
    await pilot.press("c")
    await until(pilot, lambda: isinstance(stage.app.screen, ChartList))
    chart_list = stage.app.screen
    await pilot.press(*keys)
    await pilot.pause()
    assert isinstance(chart_list, ChartList)
    return chart_list


async def chosen(stage: Stage, pilot: Pilot[None], *keys: str) -> None:
    """Open the list, press keys in it, and wait for what comes of them."""
    await opened(stage, pilot, *keys)
    await until(pilot, lambda: stage.app.screen is stage.screen)
    await pilot.pause()


async def run_twice(first: Callable[[Stage, Pilot[None]], object]) -> list[str]:
    """Return the charts of the second of two runs of one kind."""
    for turn in range(2):
        stage = Stage()
        async with stage.app.run_test(size=(160, 40)) as pilot:
            await stage.train(pilot)
            if turn == 0:
                await first(stage, pilot)  # type: ignore[misc]
            await until(pilot, lambda stage=stage: len(shown(stage)) >= 3)
            charts = shown(stage)[:3]
            stage.session.close()
            await stage.ended(pilot)
            await pilot.press("q")
            await pilot.pause()
    return charts


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_all_charts_are_listed_with_their_newest_values(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        await opened(stage, pilot)
        for title in ("loss", "step time", "accuracy", "samples/s", "memory of ranks"):
            listed = re.search(rf"│ {title}  +(\S*\d\S*(?: m?s)?)  [▁▂▃▄▅▆▇]+ ", stage.text())
            assert listed, title


async def test_typing_filters_and_enter_puts_the_chart_into_the_focused_place() -> None:
    stage = Stage()
    async with stage.training(size=(160, 40)) as pilot:
        assert shown(stage) == ["loss", "phases", "accuracy"]
        await pilot.press("5")
        chart_list = await opened(stage, pilot, *"MEM")
        assert chart_list.query_one(OptionList).option_count == 2
        assert "charts, 2 of " in stage.text()
        await pilot.press("enter")
        await until(pilot, lambda: shown(stage) == ["loss", "phases", "memory"])
        focused = stage.app.focused
        assert focused is not None
        assert stage.screen.query(Charts)[2] in focused.ancestors


async def test_the_loss_stays_first_whatever_is_chosen() -> None:
    stage = Stage()
    async with stage.training(size=(160, 40)) as pilot:
        await pilot.press("3")
        await chosen(stage, pilot, *"samples", "enter")
        assert shown(stage) == ["loss", "throughput", "accuracy"]
        assert " ³loss" in stage.text()


async def test_where_one_chart_has_room_it_is_the_chosen_one_and_3_goes_back_to_the_loss() -> None:
    stage = Stage()
    async with stage.training(size=(80, 24)) as pilot:
        await chosen(stage, pilot, *"acc", "enter")
        assert shown(stage) == ["accuracy"]
        await pilot.press("3")
        assert shown(stage) == ["loss"]
        await chosen(stage, pilot, *"loss", "enter")
        assert shown(stage) == ["loss"]


async def test_esc_changes_nothing_and_half_an_expression_is_a_text() -> None:
    stage = Stage()
    async with stage.training(size=(160, 40)) as pilot:
        before = shown(stage)
        chart_list = await opened(stage, pilot, *"s/it(")
        assert chart_list.query_one(OptionList).option_count == 0
        await pilot.press("enter", "ctrl+g")
        assert stage.app.screen is chart_list, "nothing matches, so there is nothing to choose"
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        assert shown(stage) == before


async def test_a_choice_is_not_remembered_by_itself() -> None:
    async def choose(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await chosen(stage, pilot, *"samples", "enter")
        await pilot.press("l")

    assert await run_twice(choose) == ["loss", "phases", "accuracy"]


@pytest.mark.parametrize("place", ["list", "run"])
async def test_a_layout_that_is_kept_comes_up_in_the_next_run(place: str) -> None:
    async def keep(stage: Stage, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await chosen(stage, pilot, *"samples", "enter")
        if place == "list":
            await chosen(stage, pilot, "ctrl+s")
        else:
            await stage.app.run_action("keep_layout", stage.screen)

    assert await run_twice(keep) == ["loss", "throughput", "accuracy"]


@pytest.mark.parametrize("place", ["list", "run"])
async def test_a_reset_brings_back_the_standard_charts(place: str) -> None:
    stage = Stage()
    async with stage.training(size=(160, 40)) as pilot:
        await pilot.press("4")
        await chosen(stage, pilot, *"samples", "enter")
        await chosen(stage, pilot, "ctrl+s")
        if place == "list":
            await chosen(stage, pilot, "ctrl+r")
        else:
            await pilot.press("ctrl+r")
        await until(pilot, lambda: shown(stage) == ["loss", "phases", "accuracy"])


async def test_the_list_of_commands_has_both() -> None:
    stage = Stage()
    async with stage.training() as _:
        names = [command.title for command in stage.app.get_system_commands(stage.screen)]
        assert {"Keep this layout", "Reset charts"} <= set(names)


async def test_all_that_match_are_shown_as_a_grid_with_pages() -> None:
    stage = Stage()
    async with stage.training(size=(80, 24)) as pilot:
        await opened(stage, pilot, *"samples|time")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartGrid))
        grid = stage.app.screen
        assert "charts 1 to 2 of 3   page 1 of 2 ([, ])" in stage.text()
        assert ids_on_page(grid) == ["phases", "throughput"]
        await until(pilot, lambda: len({chart.region.y for chart in charts_on_page(grid)}) == 2)
        await pilot.press("pagedown", "pagedown")
        assert ids_on_page(grid) == ["seconds"]
        await until(pilot, lambda: "page 2 of 2" in stage.text())
        await pilot.press("[")
        assert ids_on_page(grid) == ["phases", "throughput"]
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartList))
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)


def charts_on_page(grid: Screen[Any]) -> list[Charts]:
    return [chart for chart in grid.query(Charts) if chart.display]


def ids_on_page(grid: Screen[Any]) -> list[str]:
    return [chart.kind.id for chart in charts_on_page(grid)]


async def test_a_wide_screen_has_room_for_a_grid_and_its_charts_have_their_keys() -> None:
    stage = Stage()
    async with stage.training(size=(200, 60)) as pilot:
        await opened(stage, pilot)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartGrid))
        grid = stage.app.screen
        await until(pilot, lambda: len(ids_on_page(grid)) == 6)
        assert "page 1 of 2" in stage.text().splitlines()[0]
        regions = [chart.region for chart in charts_on_page(grid)]
        assert len({region.x for region in regions}) == 3
        assert len({region.size for region in regions}) <= 2, "a rest of the columns apart"
        loss = grid.query(Charts).first()
        await pilot.press("l", "left")
        await until(pilot, lambda: loss.view.cursor is not None)
        assert loss.view.log_y
        await pilot.press("escape")
        assert loss.view.cursor is None, "esc leaves one layer"
        await pilot.press("z")
        await until(pilot, lambda: loss.size.height > 50)
        await pilot.press("escape")
        await until(pilot, lambda: loss.size.height < 30)
        assert stage.app.screen is grid


def test_a_course_of_many_decades_is_drawn_by_logarithms() -> None:
    levels = course(np.array([1000.0, 100.0, 10.0, 1.0]), 4)
    assert len(set(levels)) == 4
    assert list(levels) == sorted(levels, reverse=True)
    assert course(np.array([np.nan, 2.0, 2.0]), 8) == "▁▁"
    assert course(np.array([]), 8) == ""
