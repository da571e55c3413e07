"""Notes at steps: written on a run, and shown wherever the run is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from remote.metrics.run import read_figures
from remote.record.index import entries
from remote.record.step_notes import StepNote, read_step_notes, write_step_note
from tests.kit.acted import until
from tests.kit.commands import Done
from tests.kit.commands import run as run
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan
from tests.kit.recorded import recorded
from tui.charts.panel import Charts
from tui.commands.runs import runs as list_runs
from tui.kit.choice_dialogs import TextPrompt
from tui.report.topics import notes as topic
from tui.run.verdict_panel import VerdictPanel

Run = Callable[..., Done]


@pytest.fixture
def recorded_run(tmp_path: Path) -> Path:
    folder = recorded(tmp_path / "runs", History(replace(plan(2), run="a-1")).training(9).ended())
    write_step_note(folder, 7, "lr lowered")
    write_step_note(folder, 3, "[b] warm-up ends")
    return folder


async def write(stage: Stage, pilot: Pilot[None], text: str) -> None:
    await pilot.press("m")
    await until(pilot, lambda: isinstance(stage.app.screen, TextPrompt))
    await pilot.press(*text, "enter")
    await until(pilot, lambda: stage.app.screen is stage.screen)
    await pilot.pause()


async def test_m_notes_at_the_newest_step_and_the_charts_mark_it(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40)) as pilot:
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        await write(stage, pilot, "warm")
        assert read_step_notes(folder) == (StepNote(60, "warm"),)
        loss = stage.screen.query(Charts).first()

        def letters() -> set[str]:
            stage.app.tick()
            return {letter for _, letter in loss.query_one("Chart")._marks}  # type: ignore[attr-defined]

        await until(pilot, lambda: "N" in letters())
        await pilot.press("m")
        await until(pilot, lambda: isinstance(stage.app.screen, TextPrompt))
        assert "warm" in stage.text(), "the note is there to change"
        await pilot.press("end", *"er", "enter")
        await until(pilot, lambda: read_step_notes(folder) == (StepNote(60, "warmer"),))


async def test_m_notes_at_the_cursor_and_the_cursor_shows_what_was_noted(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40)) as pilot:
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        await pilot.press("3", "left", "left", "left")
        step = stage.screen.query(Charts).first().cursor_step
        assert step
        assert step < 60
        await write(stage, pilot, "odd")
        assert read_step_notes(folder) == (StepNote(step, "odd"),)
        await until(pilot, lambda: "N odd" in stage.text())
        await pilot.press("left", "left")
        await until(pilot, lambda: "N odd" not in stage.text())


async def test_the_outcome_has_the_notes(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40)) as pilot:
        (tmp_path / stage.session.plan.run).mkdir()
        await write(stage, pilot, "warm")
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await until(pilot, lambda: "notes: step 60: warm" in stage.text())
        assert stage.screen.query_one(VerdictPanel).display


def test_the_list_of_runs_has_them(run: Run, recorded_run: Path) -> None:
    (entry,) = entries(recorded_run.parent)
    assert entry.step_notes == "step 3: [b] warm-up ends; step 7: lr lowered"
    assert "step 7: lr lowered" in run(list_runs).stdout
    assert "a-1" in run(list_runs, words=["lowered"]).stdout


def test_the_report_has_a_table_of_them(recorded_run: Path) -> None:
    class Subject:
        runs = (read_figures(recorded_run),)

    section = topic.make_section(Subject(), None)  # type: ignore[arg-type]
    assert section
    (table,) = section.tables
    assert list(table.rows) == [("a-1", "3", "[b] warm-up ends"), ("a-1", "7", "lr lowered")]


def test_an_empty_note_removes_it_and_other_files_are_none(recorded_run: Path) -> None:
    write_step_note(recorded_run, 3, " ")
    write_step_note(recorded_run, 7, "")
    assert read_step_notes(recorded_run) == ()
    assert not list(recorded_run.glob("step-notes*"))
    huge = f'[{{"step": {10**400}, "text": ""}}]'
    for content in ("{", '[{"step": "x"}]', huge, "[1]", ""):
        (recorded_run / "step-notes.json").write_text(content)
        assert read_step_notes(recorded_run) == ()
