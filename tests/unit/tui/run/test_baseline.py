"""A run that is pinned: its curve stands behind those of other runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from remote.record import marks
from tests.kit.acted import until
from tests.kit.commands import Done
from tests.kit.commands import run as run
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan
from tests.kit.looks import screen_text
from tests.kit.recorded import recorded
from training.wire.rank_events import StepFinished
from tui.app.compare_app import CompareApp
from tui.charts.chart_list import ChartList
from tui.charts.panel import Charts
from tui.commands.runs import runs as list_runs
from tui.kit.choice_dialogs import TextPrompt
from tui.kit.inks import REFERENCE
from tui.run.chart_grid import ChartGrid
from tui.run.components.run_card import RunCard

Run = Callable[..., Done]


def make_run(runs_dir: Path, name: str, steps: int = 100) -> Path:
    """Record a run with a loss of 5, whatever the step."""
    history = History(replace(plan(2), run=name)).training()
    for step in range(1, steps + 1):
        for rank in (0, 1):
            history.rank(rank, StepFinished(rank, 1, step, 5.0, 0.1, samples=32, sync=0.02))
    return recorded(runs_dir, history.ended())


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    folder = make_run(tmp_path / "runs", "a-1")
    marks.write_name(folder, "old one")
    marks.pin(folder, True)
    return folder


def has_ghost(chart: Charts) -> bool:
    return any(curve.colour == REFERENCE for curve in chart.query_one("Chart")._curves)  # type: ignore[attr-defined]


async def ghosts_shown(stage: Stage, pilot: Pilot[None]) -> None:
    def all_have_ghosts() -> bool:
        stage.app.tick()
        charts = [chart for chart in stage.screen.query(Charts) if chart.display]
        return all(has_ghost(chart) for chart in charts if not chart.kind.stacked)

    await until(pilot, all_have_ghosts)


async def test_the_pinned_run_is_named_in_the_title_with_its_value_at_the_newest_step(
    baseline: Path,
) -> None:
    stage = Stage(runs_dir=baseline.parent)
    async with stage.training(size=(160, 40)) as pilot:
        await ghosts_shown(stage, pilot)
        await until(pilot, lambda: "╌ old one 5.00 (-" in stage.text())
        (ghost,) = (
            curve
            for curve in stage.screen.query(Charts).first()._plot._curves
            if curve.colour == REFERENCE
        )
        assert ghost.faint
        assert ghost.x.max() == 60, "it goes as far as the run itself"


async def test_the_grid_has_it_too(baseline: Path) -> None:
    stage = Stage(runs_dir=baseline.parent)
    async with stage.training(size=(160, 40)) as pilot:
        await ghosts_shown(stage, pilot)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartList))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartGrid))
        await until(pilot, lambda: stage.text().count("╌ old one") > 2)


async def test_a_key_on_the_run_pins_it_and_takes_the_pin_away(baseline: Path) -> None:
    stage = Stage(runs_dir=baseline.parent)
    async with stage.training(size=(120, 40)) as pilot:
        folder = baseline.parent / stage.session.plan.run
        folder.mkdir()
        await until(pilot, lambda: "╌ old one" in stage.text())
        await pilot.press("p")
        await until(pilot, lambda: marks.find_pinned(baseline.parent) == folder)
        assert not marks.is_pinned(baseline), "one run is pinned at a time"
        await until(pilot, lambda: "╌ old one" not in stage.text())
        await pilot.press("p")
        await until(pilot, lambda: marks.find_pinned(baseline.parent) is None)


async def test_compare_pins_run_a(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "runs", name) for name in ("a-1", "b-2")]
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "● A a-1" in screen_text(app))
        await pilot.press("p")
        await until(pilot, lambda: "a-1 is the baseline" in screen_text(app))
    assert marks.find_pinned(tmp_path / "runs") == folders[0]


def test_the_list_of_runs_remembers_the_pin(run: Run, baseline: Path) -> None:
    make_run(baseline.parent, "b-2")
    assert [
        line.split()[0] for line in run(list_runs, words=["pinned"]).stdout.splitlines()[1:]
    ] == ["a-1"]


async def test_a_run_that_cannot_be_read_is_no_baseline(baseline: Path) -> None:
    (baseline / "plan.json").write_text("{")
    stage = Stage(runs_dir=baseline.parent)
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.pause()
        assert not has_ghost(stage.screen.query(Charts).first())


async def test_on_a_large_screen_the_card_has_the_command_the_baseline_and_the_newest_note(
    baseline: Path,
) -> None:
    stage = Stage(runs_dir=baseline.parent)
    async with stage.training(size=(200, 60)) as pilot:
        (baseline.parent / stage.session.plan.run).mkdir()
        await pilot.press("m")
        await until(pilot, lambda: isinstance(stage.app.screen, TextPrompt))
        await pilot.press(*"warm", "enter")
        await until(pilot, lambda: card(stage).get("note") == "step 60: warm")
        assert card(stage)["baseline"] == "old one"
        assert card(stage)["command"].startswith("rankboard ")


def card(stage: Stage) -> dict[str, str]:
    """The facts of the card by their labels; of several lines, the first."""
    region = stage.screen.query_one(RunCard).region
    lines = stage.text().splitlines()[region.y + 1 : region.bottom - 1]
    facts = [line[region.x + 1 : region.right - 1].split(maxsplit=1) for line in lines]
    return {fact[0]: fact[1].strip() for fact in facts if len(fact) == 2}
