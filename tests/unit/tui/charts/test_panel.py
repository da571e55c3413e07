"""The charts on the run screen: how many there are, their keys and the mouse."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs
from textual import events
from textual.pilot import Pilot

from remote.plan.plan import Script
from remote.run.run_state import RunState
from remote.run.series.source_history import SourceHistory
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from training.wire import events as events_of
from training.wire import rank_events
from training.wire.events import Record
from tui.charts import panel
from tui.charts.chart import Chart
from tui.charts.chart_view import CurveMode, XAxis
from tui.charts.deck import Deck
from tui.charts.kinds import KINDS, available
from tui.charts.panel import Charts
from tui.log.panel import LogPanel
from tui.run.components.header_figures import header_figures
from tui.run.hosts_panel import HostsPanel
from tui.run.ranks_panel import RanksPanel
from tui.run.verdict_panel import VerdictPanel


def shown(stage: Stage) -> list[Charts]:
    return [chart for chart in stage.screen.query(Charts) if chart.display]


def first(stage: Stage) -> Charts:
    return shown(stage)[0]


async def drawn(stage: Stage, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: all(chart.query_one(Chart).x_axis for chart in shown(stage)))


def is_filled(stage: Stage) -> bool:
    """Return True if the charts take all columns, but for a rest that cannot be shared out."""
    charts = shown(stage)
    taken = sum(chart.region.width for chart in charts) + 2 * (len(charts) - 1)
    return abs(taken - stage.screen.size.width) < len(charts)


CHARTS = {60: 1, 80: 1, 109: 1, 110: 2, 119: 2, 120: 2, 150: 3, 300: 3}
"""How many charts there are in a terminal of so many columns and 28 lines."""


async def test_charts_stand_beside_each_other_as_far_as_there_is_room() -> None:
    stage = Stage()
    async with stage.training(size=(60, 28)) as pilot:
        for width, count in CHARTS.items():
            await pilot.resize_terminal(width, 28)
            await until(pilot, lambda width=width: stage.screen.size.width == width)
            await until(pilot, lambda count=count: len(shown(stage)) == count)
            await until(pilot, lambda: is_filled(stage))
            regions = [chart.region for chart in shown(stage)]
            assert len({region.y for region in regions}) == 1
            gaps = [after.x - before.right for before, after in pairwise(regions)]
            assert gaps == [2] * (count - 1), "what is at the edge of one does not touch the next"
            has_room = width >= 120
            hosts_panel = stage.screen.query_one(HostsPanel)
            await until(
                pilot,
                lambda panel=hosts_panel, seen=has_room: bool(panel.region.width) == seen,
            )
            hosts, ranks = hosts_panel.region, stage.screen.query_one(RanksPanel).region
            assert width - hosts.width - ranks.width == (2 if width >= 120 else 0)


async def test_on_24_lines_8_ranks_have_a_line_each() -> None:
    stage = Stage(hosts=4, slots=2)
    async with stage.training() as pilot:
        await pilot.pause()
        assert stage.screen.query_one(RanksPanel).size.height >= 9
        assert first(stage).size.height >= 4
        assert stage.screen.query_one(LogPanel).size.height >= 2


async def test_the_end_on_24_lines_leaves_room_for_a_chart_with_its_axis() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await until(pilot, lambda: stage.screen.query_one(VerdictPanel).size.height > 0)
        await until(pilot, lambda: first(stage).query_one(Chart).size.height >= 5)
        await until(pilot, lambda: any(map(is_axis, stage.text().splitlines())))
        assert stage.screen.query_one(VerdictPanel).size.height <= 6


def is_axis(line: str) -> bool:
    return line.rstrip().endswith(" step")


async def test_the_keys_of_a_chart() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("3")
        await drawn(stage, pilot)
        chart = first(stage)
        for key, seen in (
            ("b", lambda: chart.view.mode is CurveMode.EACH),
            ("b", lambda: (chart.view.mode, chart.view.one) == (CurveMode.ONE, 0)),
            ("x", lambda: chart.view.along is XAxis.EPOCH),
            ("x", lambda: chart.view.along is XAxis.TIME),
            ("l", lambda: chart.view.log_y and chart.query_one(Chart).options.log_y),
            ("X", lambda: chart.view.log_x),
            ("X", lambda: not chart.view.log_x),
            ("plus", lambda: chart.view.smoothing == 0.95),
            ("minus", lambda: chart.view.smoothing == 0.9),
            ("M", lambda: not chart.view.marks),
            ("up", lambda: chart.view.window is not None),
            ("right_curly_bracket", lambda: chart.view.window is not None),
            ("left", lambda: chart.view.cursor is not None),
            ("full_stop", lambda: chart.view.tail > 0),
            ("0", lambda: chart.view.is_whole and chart.view.cursor is None),
        ):
            await pilot.press(key)
            await until(pilot, seen)
            await drawn(stage, pilot)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_pages_show_all_charts_once_and_come_back_to_the_loss(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        await drawn(stage, pilot)
        num_charts = len(available(stage.session.state))
        await pilot.press("]", "[")  # from now on, it is known how many there are
        seen = [chart.kind.id for chart in shown(stage)]
        assert seen[0] == "loss"
        while len(seen) < num_charts:
            before = len(seen)
            await pilot.press("]")
            seen += [chart.kind.id for chart in shown(stage)]
            assert len(seen) > before
        assert len(set(seen)) == len(seen) == num_charts
        await pilot.press("]")
        assert first(stage).kind.id == "loss"
        await pilot.press("[")
        assert shown(stage)[-1].kind.id == seen[-1]


async def test_a_chart_that_is_chosen_on_a_later_page_stands_on_the_first() -> None:
    stage = Stage()
    async with stage.training(size=(80, 24)) as pilot:
        await drawn(stage, pilot)
        await pilot.press("]", "c", *"acc", "enter")
        await until(pilot, lambda: "accuracy" in [chart.kind.id for chart in shown(stage)])


async def test_one_rank_against_the_mean_is_the_chosen_one_else_the_slowest() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot, 20)
        stage.session.steps(21, 60, late=3)
        await until(pilot, lambda: "rank 3" in stage.text())
        await pilot.press("3")
        await drawn(stage, pilot)
        chart = first(stage)
        await pilot.press("b", "b")
        await until(pilot, lambda: (chart.view.mode, chart.view.one) == (CurveMode.ONE, 3))
        # Below rank 3, which comes first.
        await pilot.press("1", "home", "down", "down", "3", "b")
        await until(pilot, lambda: (chart.view.mode, chart.view.one) == (CurveMode.ONE, 1))
        await pilot.press("b")
        await until(pilot, lambda: chart.view.mode is CurveMode.MEAN)
        stage.session.close()
        await stage.ended(pilot)


async def test_of_ranks_that_do_not_tell_when_they_are_ready_none_is_the_slowest() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        for step in range(61, 82):
            for rank in range(4):
                ready = (math.nan, 0.02, 0.08, 0.02)[rank]
                one = rank_events.StepFinished(rank, 1, step, 1.0, 0.1, ready=ready)
                stage.session.say(stage.session.host_of(rank), one)
        await stage.heard(pilot, 81)
        chart = first(stage)
        await pilot.press("3", "b", "b")
        await until(pilot, lambda: (chart.view.mode, chart.view.one) == (CurveMode.ONE, 2))


async def test_keys_read_nothing_of_the_run_that_its_session_may_be_writing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await drawn(stage, pilot)
        chart = first(stage)

        def pack(_: SourceHistory) -> None:
            assert stage.session.lock.locked(), "the session may be appending"

        monkeypatch.setattr(SourceHistory, "pack", pack)
        await pilot.press("3", "b")
        await until(pilot, lambda: chart.view.mode is CurveMode.EACH)


async def test_before_a_restart_on_fewer_hosts_all_ranks_are_read_again(tmp_path: Path) -> None:
    stage = Stage(hosts=2, slots=1, runs_dir=tmp_path)
    async with stage.shown(size=(80, 40)) as pilot:
        stage.session.start(steps=5_000)
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        with (folder / "events.jsonl").open("w") as file:
            for rank in (0, 1):
                made = [
                    rank_events.StepFinished(rank, 1, step, 2.0, 0.1) for step in range(1, 5_001)
                ]
                stage.session.say(rank, *made)
                for number, one in enumerate(made, 2):
                    record = Record(rank, 0, number, 1_000.0 + number / 10, one)
                    file.write(events_of.encode(record))
        stage.session.restart(0, resumed=5_000)
        stage.session.steps(5_001, 5_010)
        await until(pilot, lambda: stage.session.state.step == 5_010)
        await pilot.press("3")
        chart = first(stage)
        chart.set_view(structs.replace(chart.view, window=(1_000.0, 1_040.0)))
        await until(pilot, lambda: chart._fine.curves is not None)
        assert chart._fine.curves
        assert chart._fine.curves.rows("loss") == (0, 1)


async def test_a_replay_that_goes_back_shows_no_later_step() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        await drawn(stage, pilot)
        chart = first(stage)
        assert chart._drawing
        assert chart._drawing.x_range
        with stage.session.lock:
            chart.show(RunState(stage.session.plan))
        assert not chart._drawing.x_range


async def test_the_cursor_tells_its_values_above_the_chart() -> None:
    stage = Stage()
    async with stage.training(size=(200, 40)) as pilot:
        await pilot.press("3", "z", "left")
        await until(pilot, lambda: "³loss  step 60  mean " in stage.text())
        await until(pilot, lambda: "(rank " in stage.text())  # there is room for it
        await pilot.press("left")
        await until(pilot, lambda: "³loss  step 59  mean " in stage.text())


async def test_the_wheel_zooms_at_the_pointer_and_dragging_pans() -> None:
    stage = Stage()
    async with stage.training(size=(80, 40)) as pilot:
        await pilot.press("3")
        await drawn(stage, pilot)
        chart = first(stage)
        plot = chart.query_one(Chart)
        x, y = plot.region.x + 40, plot.region.y + 3
        held = plot.x_at(40)
        assert held is not None
        for _ in range(3):
            turn = events.MouseScrollUp(
                plot, 40, 3, 0, -1, 0, False, False, False, screen_x=x, screen_y=y
            )
            plot.post_message(turn)
            await pilot.pause()
            stage.app.tick()
            await pilot.pause()
        assert chart.view.window is not None
        low, high = chart.view.window
        assert high - low < 40
        assert plot.x_at(40) == pytest.approx(held, abs=1.5)
        await pilot.mouse_down(plot, offset=(40, 3))
        await pilot.hover(plot, offset=(60, 3))
        await pilot.mouse_up(plot, offset=(60, 3))
        assert chart.view.window[0] < low - 3


async def test_a_view_is_kept_where_a_run_has_fewer_charts_than_places() -> None:
    stage = Stage()
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Script(("train.py",)))
    async with stage.shown(size=(160, 40)) as pilot:
        stage.session.start()
        for step in range(1, 4):
            for rank in range(4):
                stage.session.say(
                    rank // 2, rank_events.StepFinished(rank, 1, step, 2.0 / step, 0.0)
                )
        await until(pilot, lambda: len(shown(stage)) == 1)
        await drawn(stage, pilot)
        await pilot.press("3", "l", "c", "enter")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        await pilot.pause()
        assert first(stage).kind.id == "loss"
        assert first(stage).view.log_y


async def test_the_screen_of_an_older_run_leaves_newer_choices_alone() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        newer = Deck(stage.session.plan, Charts.copies)
        newer.set_view(KINDS[0], structs.replace(newer.view(KINDS[0]), log_y=True))
        newer.keep()
        stage.session.close()
        await stage.ended(pilot)
        await pilot.press("q")
    assert Deck(stage.session.plan, Charts.copies).view(KINDS[0]).log_y


@pytest.mark.parametrize("seed", range(2))
async def test_no_keys_on_a_chart_and_no_sizes_break_it(seed: int) -> None:
    keys = [
        *("b", "x", "l", "L", "plus", "minus", "left", "right", "0", "full_stop", "M", "c", "3"),
        *("up", "down", "right_square_bracket", "left_square_bracket", "4", "z"),
        *("right_curly_bracket", "left_curly_bracket"),
    ]
    dice, stage = random.Random(seed), Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await press_and_draw(stage, pilot, "3", *dice.choices(keys, k=10))  # nothing is there yet
        await stage.train(pilot, 20)
        for step in range(21, 51, 10):
            await press_and_draw(stage, pilot, *dice.choices(keys, k=15))
            stage.session.steps(step, step + 9)
            stage.app.tick()
            await pilot.resize_terminal(dice.randrange(1, 220), dice.randrange(1, 70))
            await pilot.pause()
            stage.text()
        await pilot.resize_terminal(80, 24)
        stage.session.finish(50, 1)
        await stage.ended(pilot)
        await press_and_draw(stage, pilot, *dice.choices(keys, k=20))
        assert stage.app.is_running


async def press_and_draw(stage: Stage, pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        stage.text()


async def test_deep_in_a_long_run_the_record_is_read_again(tmp_path: Path) -> None:
    stage = Stage(hosts=1, slots=1, runs_dir=tmp_path)
    async with stage.shown(size=(80, 40)) as pilot:
        stage.session.start(steps=9_000)
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        made = [
            rank_events.StepFinished(0, 1, step, 2.0 + step % 2, 0.1) for step in range(1, 9_001)
        ]
        with (folder / "events.jsonl").open("w") as file:
            for number, one in enumerate(made, 2):
                file.write(events_of.encode(Record(0, 0, number, 1_000.0 + number / 10, one)))
        stage.session.say(0, *made)
        await until(pilot, lambda: "step 9000/9000" in stage.text())
        await pilot.press("3", "b")
        chart = first(stage)
        chart.set_view(structs.replace(chart.view, window=(3_000.0, 3_040.0)))
        await until(pilot, lambda: chart._fine.curves is not None)
        await until(pilot, lambda: seen_steps(chart) == list(range(3_000, 3_041)))
        assert chart._drawing
        assert chart._drawing.x_range
        assert chart._drawing.x_range[1] > 8_900, "the ends are those of the whole run"


def seen_steps(chart: Charts) -> list[float]:
    assert chart._drawing
    x = chart._drawing.lines[0].x
    return [step for step in x.tolist() if 3_000 <= step <= 3_040]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_chart_of_the_accuracy_names_the_best_test(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        for epoch, accuracy in enumerate((0.5, 0.91, 0.7), 1):
            tested = rank_events.Evaluated(0, epoch, 20 * epoch, 0.5, accuracy, 100, 1.0)
            stage.session.say(0, tested)
        await pilot.press("c", *"acc", "enter", "z")
        await until(pilot, lambda: " at step 40" in stage.text())


async def test_a_single_test_is_not_called_the_best() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.say(0, rank_events.Evaluated(0, 1, 20, 0.5, 0.9, 100, 1.0))
        await pilot.press("c", *"acc", "enter")
        await until(pilot, lambda: " test " in stage.text().partition("100%┤")[2])
        assert " at step " not in stage.text()


async def test_titles_follow_the_header_at_ticks_that_draw_no_chart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await drawn(stage, pilot)
        monkeypatch.setattr(panel, "TICKS_PER_DRAWING", 10**9)
        stage.session.steps(61, 62, seconds=0.7)
        await stage.heard(pilot, 62)

        def header_and_titles() -> list[str]:
            figures = {figure.label: figure.value for figure in header_figures(stage.session.state)}
            return [f"loss  train {figures['loss']} ", f"step time  {figures['step']} = "]

        await until(pilot, lambda: all(text in stage.text() for text in header_and_titles()))
