"""The dashboard of a study: its cells, the run under way, and the ways to leave."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from remote.record.loss_course import LossCourse
from remote.study.folder import RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.length import TrainingLength
from remote.study.progress import StudyProgress
from remote.study.study_file import parse_study
from tests.kit.acted import ActedSession, until
from tests.kit.acted_study import TEXT, acted_runner, finish, stopped
from tests.kit.dashboard import asked
from tests.kit.looks import screen_text
from tui.app.study_app import StudyApp
from tui.kit.messages import ShowRun
from tui.kit.widgets.choices import ChoiceTable
from tui.run.screen import RunScreen
from tui.study import loss_curves
from tui.study.cell_screen import CellScreen
from tui.study.study_screen import StudyScreen
from tui.study.verdict_text import name_cell

SIZES = [(80, 24), (120, 40), (200, 60)]


class Stage:
    """A dashboard over a study whose runs are acted out."""

    def __init__(self, folder: Path, refused: Collection[str] = (), reason: str = "") -> None:
        self.runner = acted_runner(folder / "runs", refused=refused, reason=reason)
        self.app = StudyApp(self.runner)

    @property
    def sessions(self) -> list[ActedSession]:
        launcher: Any = self.runner.launcher
        return launcher.sessions  # type: ignore[no-any-return]

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in screen_text(self.app).splitlines())

    def line(self, *words: str) -> str:
        """The first line with these words; "" if there is none."""
        lines = self.text().splitlines()
        return next((line for line in lines if all(word in line for word in words)), "")

    async def runs(self, pilot: Pilot[None], count: int) -> None:
        """Wait until so many runs have begun."""
        await until(pilot, lambda: len(self.sessions) == count and bool(self.runner.current))

    async def make(self, pilot: Pilot[None], seconds: Callable[[ActedSession], float]) -> None:
        """Act one run after the other, to the end of the study."""
        await self.make_rest(pilot, seconds, 0)

    async def make_rest(
        self, pilot: Pilot[None], seconds: Callable[[ActedSession], float], num_made: int
    ) -> None:
        """The same, once so many runs have been made."""
        acted = self.sessions[:num_made]
        while not self.runner.is_over:
            await until(pilot, lambda: len(self.sessions) > len(acted) or self.runner.is_over)
            for session in self.sessions[len(acted) :]:
                finish(session, seconds(session))
                acted.append(session)


def by_method(session: ActedSession) -> float:
    """Seconds per step: ring is slower than the others."""
    job = session.plan.job
    assert job
    return {"all_reduce": 0.1, "ring": 0.2, "ddp": 0.1}[job.sync] * (1 + job.seed % 7 / 1000)


@pytest.mark.parametrize("size", SIZES)
async def test_the_cells_and_the_run_under_way(tmp_path: Path, size: tuple[int, int]) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=size) as pilot:
        await stage.runs(pilot, 1)
        first = stage.runner.current
        assert first
        assert "no run has ended yet" in stage.text()
        stage.sessions[0].start(40)
        stage.sessions[0].steps(1, 10)
        await until(pilot, lambda: bool(stage.line("step 10/40", "ETA ~3 s")))
        assert stage.line("▌ ● run 1 of 12: ", name_cell(first.trial.cell))
        assert stage.line("▶ enter open this run   d runs of this row")
        assert stage.line("0 of 12 runs")
        assert "left" not in stage.line("run 1 of 12"), "no run has ended to estimate from"
        assert stage.line("● running", "0/2")
        assert all(len(line) <= size[0] for line in stage.text().splitlines())
        stage.sessions[0].steps(11, 40)
        stage.sessions[0].finish(40, 1)
        await stage.runs(pilot, 2)
        await until(pilot, lambda: bool(stage.line("1 of 12 runs")))
        assert stage.line("▌ ● run 2 of 12: ", "~", " left")
        stage.sessions[1].start(40)
        stage.sessions[1].steps(1, 40)
        stage.sessions[1].finish(40, 1)
        await until(pilot, lambda: bool(stage.line("▌ so far: best seconds per step")))
        await stage.runs(pilot, 3)
        stage.runner.stop("enough")
        stopped(stage.sessions[2])
        await until(pilot, lambda: stage.runner.is_over)
        await until(
            pilot, lambda: bool(stage.line("▌ ▲ stopped: enough; 10 of 12 runs are missin"))
        )
        assert stage.line("▶ R make the 10 missing runs")


async def test_a_whole_study_ends_with_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.make(pilot, by_method)
        await until(pilot, lambda: bool(stage.line("Three ways", "✓ finished")))
        assert stage.line("12 of 12 runs")
        row = stage.line("a ring of two", " 2 ", "✓ finished", "2/2")
        assert "x slower (" in row
        assert stage.line("▌ ✓ no method is shown to be faster than all_reduce; ")
        assert stage.line("2 of 4 comparisons show a difference")
        assert "R " not in stage.line("▶ enter open the runs of this row"), (
            "nothing is left to be made"
        )
        await pilot.press("q")
    assert stage.app.exit_code == 0


async def test_an_impossible_speed_up_is_the_first_line_of_the_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def seconds(session: ActedSession) -> float:
        return 0.1 / (8 if len(session.plan.hosts) == 2 else 1)

    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.make(pilot, seconds)
        await until(pilot, lambda: bool(stage.line("Three ways", "✓ finished")))
        assert stage.line("▌ ▲ 2 nodes were measured up to ", " times as fast as one (")
        assert stage.line("more than 2 is not possible by adding nodes")
        assert stage.line("ddp", " 2 ", "✓ finished", "in doubt")
        assert not stage.line("times", "as fast as all_reduce")
        await pilot.press("down", "d")
        await until(pilot, lambda: isinstance(stage.app.screen, CellScreen))
        await until(pilot, lambda: bool(stage.line("more than 2 is not possible")))
        await pilot.press("escape", "q")


async def test_enter_opens_the_run_under_way_and_escape_goes_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.runs(pilot, 1)
        run = stage.runner.current
        assert run
        await until(pilot, lambda: bool(stage.line("● running", "0/2")))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        await until(pilot, lambda: "esc Back" in stage.text())
        stage.sessions[0].start(40)
        stage.sessions[0].steps(1, 5)
        await until(pilot, lambda: bool(stage.line("step 5/40")))
        stage.sessions[0].steps(6, 40)
        stage.sessions[0].finish(40, 1)
        await stage.runs(pilot, 2)
        assert "n New run" not in stage.text()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, StudyScreen))
        await until(pilot, lambda: bool(stage.line("1 of 12 runs")))
        stage.runner.stop("enough")
        stopped(stage.sessions[1])


async def test_what_is_saved_goes_to_the_folder_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tui.charts.picture", None)  # a chart has no pictures
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        for count in (1, 2):
            await stage.runs(pilot, count)
            session = stage.sessions[-1]
            name = session.plan.run
            folder = tmp_path / "runs" / name
            if count == 1:
                folder.mkdir()
            session.start(40)
            session.steps(1, 40)
            stage.app.screen.post_message(ShowRun(name))
            await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
            await until(pilot, lambda: bool(stage.line("step 40/40")))
            await pilot.press("3", "W", "2", "Y", "e")
            saved = {
                f"{name}/loss.csv" if count == 1 else f"{STUDY}/{name}-loss.csv",
                f"{name}/copied.txt" if count == 1 else f"{STUDY}/{name}-copied.txt",
            }
            await until(pilot, lambda saved=saved: saved <= files(tmp_path / "runs"))
            await until(pilot, lambda count=count: len(screenshots(tmp_path)) == count)
            await pilot.press("escape")
            finish(session, 0.1)
        assert {path.parent.name for path in screenshots(tmp_path)} == {
            stage.sessions[0].plan.run,
            STUDY,
        }
        stage.runner.stop("enough")
        for session in stage.sessions[2:]:
            stopped(session)
        await until(pilot, lambda: stage.runner.is_over)


STUDY = "three-ways.study"


def files(folder: Path) -> set[str]:
    """Return the files of a folder, without the step that a chart shows."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*")]
    return {re.sub(r"-step\d+", "", name) for name in names}


def screenshots(folder: Path) -> list[Path]:
    return list(folder.rglob("rankboard*.svg"))


async def test_a_cell_shows_its_runs_and_why_one_failed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, refused=("ring",))
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.make(pilot, by_method)
        await until(pilot, lambda: bool(stage.line("Three ways", "✗ failed")))
        assert stage.line("a ring of two", "✗ failed", "0/2")
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: isinstance(stage.app.screen, CellScreen))
        assert stage.line("runs of a ring of two, nodes 1")
        assert stage.line("1", "none", "✗ failed", "ring does not work here")
        await pilot.press("escape", "home", "d")
        await until(pilot, lambda: bool(stage.line("all_reduce, lenet5 on digits, 1 rank on 1 ho")))
        assert stage.line("1 ", "✓ finished", "0.1")
        await pilot.press("escape", "q")
    assert stage.app.exit_code == 0
    assert stage.runner.progress.num_settled == 12


async def test_failed_runs_can_be_made_again(tmp_path: Path) -> None:
    refused = ["ring"]
    stage = Stage(tmp_path, refused=refused)
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "R Retry" not in stage.text())
        await stage.make(pilot, by_method)
        await until(pilot, lambda: bool(stage.line("Three ways", "✗ failed")))
        await until(pilot, lambda: "R Retry" in stage.text())
        assert stage.line(
            "▌ ✗ 4 of 12 runs failed: ring does not work here (a ring of two, nodes 1;"
        )
        assert stage.line("▶ R try the 4 failed runs again")
        refused.clear()
        made = len(stage.sessions)
        await pilot.press("R")
        await until(pilot, lambda: len(stage.sessions) > made)
        await until(pilot, lambda: bool(stage.line("Three ways", "● running")))
        await stage.make_rest(pilot, by_method, made)
        await until(pilot, lambda: bool(stage.line("Three ways", "✓ finished")))
        assert stage.line("a ring of two", "✓ finished", "2/2")
        await pilot.press("q")
    assert stage.app.exit_code == 0


async def test_a_roomy_screen_shows_times_values_and_the_runs_of_the_cell(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(160, 48)) as pilot:
        await stage.make(pilot, by_method)
        await until(pilot, lambda: bool(stage.line("Three ways", "✓ finished")))
        assert stage.line("state", "duration")
        assert stage.line("a ring of two", "●")
        await pilot.press("down", "down")
        await until(pilot, lambda: bool(stage.line("─ runs of a ring of two, nodes 1 ─")))
        assert re.search(r" state .*each run, 0\.\d+ to 0\.2", stage.text()), stage.text()
        assert stage.line(" 1  20", "✓ finished", "0.2")
        assert not stage.line(" 1  20", "✓ finished", "0.09"), "a run of another cell"
        (marked,) = marked_lines(stage)
        assert "a ring of two" in marked, "only the cursor has its background"
        await pilot.press("q")


GUESSES = TEXT.replace("steps = 40", "epochs = 2").replace(
    "repetitions", 'metric = "loss"\nrepetitions'
)


def guessing_stage(folder: Path) -> Stage:
    """A study of losses all of whose runs have ended and still guess."""
    stage = Stage(folder)
    study = parse_study("three-ways", GUESSES)
    study_folder = StudyFolder.of(folder / "runs", study.name)
    study_folder.keep(StudyCall(GUESSES, {"dataset": "digits"}, {}, quick=False))
    for number, trial in enumerate(study.trials()):
        study_folder.write(RunBegun(trial.key, f"run-{number}"))
        run_end = RunEnded(trial.key, f"run-{number}", TrialOutcome.COUNTED, 2.3, seconds=2.0)
        study_folder.write(replace(run_end, losses=(2.31, 2.29)))
    stage.runner.study = study
    stage.runner.progress = StudyProgress.of(study, study_folder.entries())
    return stage


async def test_a_key_runs_a_study_again_that_says_little(tmp_path: Path) -> None:
    stage = guessing_stage(tmp_path)
    async with stage.app.run_test(size=(120, 40), notifications=True) as pilot:
        title = "▌ ▲ too short to show anything else: after 2 epochs all runs still guess"
        await until(pilot, lambda: bool(stage.line(title)))
        lines = stage.text().splitlines()
        assert lines[lines.index(title) - 1] == (
            "▌ ✓ all_reduce, a ring of two and ddp compute the same numbers: the same test loss in "
            "all 12 runs, within rounding"
        )
        assert stage.line("▌ ▶ n run it again with 20 epochs (~4 min)", "y copy that command")
        assert stage.text().splitlines()[0].startswith("  ▲ too short   three-ways"), "the badge"
        assert stage.line("Which is fastest?", "12 of 12 runs")
        assert stage.line("enter unfold rows")
        assert "enter Unfold rows  " in stage.text().splitlines()[-1], "the same words"
        await pilot.press("down")
        await until(
            pilot,
            lambda: bool(stage.line("≈ nodes 1: within 0.1% in every run")),
        )
        assert "n Run longer" in stage.text().splitlines()[-1]
        await pilot.press("n")
        await until(pilot, lambda: bool(stage.line("12 runs of 20 epochs take ~4 min")))
        await pilot.press(*"none", "enter")
        await until(pilot, lambda: bool(stage.line("write a whole number")))
        await pilot.press("n")
        await until(pilot, lambda: bool(stage.line("12 runs of 20 epochs take ~4 min")))
        await pilot.press(*"30", "enter")
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.next_length == TrainingLength("epochs", 30)
    assert stage.app.exit_code == 0


async def test_a_small_screen_has_a_short_verdict_and_all_of_a_long_question(
    tmp_path: Path,
) -> None:
    stage = guessing_stage(tmp_path)
    question = (
        "Which of the three ways is fastest, and do all of them come to the same model again?"
    )
    stage.runner.study = replace(stage.runner.study, question=question)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        proof = "▌ ✓ all_reduce, a ring of two and ddp compute the same numbers in all 12 runs"
        await until(pilot, lambda: bool(stage.line(proof)))
        lines = stage.text().splitlines()
        assert lines[1].split() + lines[2].split()[:1] == question.split()
        assert "12 of 12 runs" in lines[2]
        await pilot.resize_terminal(80, 40)
        await until(pilot, lambda: "within rounding" in stage.text())


@pytest.mark.parametrize("loss", [2.29, 0.5])
async def test_of_losses_that_hardly_fall_the_title_says_how_little_the_axis_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: float
) -> None:
    course = LossCourse([(1, 2.31), (40, 2.29)])
    monkeypatch.setattr(loss_curves, "read_loss_points", lambda folder, _: course)
    stage = guessing_stage(tmp_path)
    for cell in stage.runner.progress.cells.values():
        for repetition, end in cell.counted.items():
            cell.counted[repetition] = replace(end, value=loss)
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(stage.line("─ training loss")))
        await until(pilot, lambda: "┤" in stage.text())
        hardly_falls = loss > 2
        assert ("the axis spans 0.02)" in stage.text()) == hardly_falls
        assert bool(stage.line("guessing 2.30")) == hardly_falls
        await pilot.press("q")


async def test_rows_with_the_same_values_are_one_until_a_key_or_enter_shows_them_apart(
    tmp_path: Path,
) -> None:
    stage = guessing_stage(tmp_path)

    def count_rows() -> int:
        return sum(" ✓ finished  " in line for line in rows_of_table(stage))

    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(
            pilot, lambda: bool(stage.line("all_reduce, a ring of two, ddp  ", " 1 ", "6/6"))
        )
        assert count_rows() == 2
        assert stage.line(" method (same) ")
        assert stage.line("─ runs of all_reduce, a ring of two and ddp (same), nodes 1 ─")
        names = ("all_reduce  ", "a ring of two  ", "ddp  ")
        assert all(stage.line(name, "  1  ", "✓ finished") for name in names), "side by side"
        assert len(marked_lines(stage)) == 1, "only the cursor has its background"
        await pilot.press("v")
        await until(pilot, lambda: count_rows() == 6)
        await until(pilot, lambda: "v Fold rows" in stage.text().splitlines()[-1])
        assert stage.line("runs of all_reduce, nodes 1")
        assert stage.line("ddp", " 2 ", "2/2", "the same")
        await pilot.press("v")
        await until(pilot, lambda: count_rows() == 2)
        await pilot.press("down", "enter")
        await until(pilot, lambda: count_rows() == 6)
        await until(pilot, lambda: bool(stage.line("runs of all_reduce, nodes 2")))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, CellScreen))
        await pilot.press("escape", "q")


def rows_of_table(stage: Stage) -> list[str]:
    """The lines of the table of cells."""
    lines = stage.text().splitlines()
    first = next((at for at, line in enumerate(lines) if line.startswith(" method ")), len(lines))
    last = next((at for at, line in enumerate(lines) if re.search("─ runs", line)), len(lines))
    return lines[first:last]


def marked_lines(stage: Stage) -> list[str]:
    """The lines that have the background of the cursor at their beginning."""
    strips = stage.app.screen._compositor.render_strips()
    grounds = [
        next((style.bgcolor for text, style, _ in strip if style and text.strip()), None)
        for strip in strips
    ]
    table = stage.app.screen.query_one(ChoiceTable)
    ground = grounds[table.region.y + 1 + table.cursor]
    lines = [strip.text for strip in strips]
    return [line for line, other in zip(lines, grounds, strict=True) if other == ground]


async def test_the_first_run_says_that_its_time_has_the_start_of_the_hosts(tmp_path: Path) -> None:
    stage = guessing_stage(tmp_path)
    cells = stage.runner.progress.cells
    first = next(
        (cell, repetition)
        for cell in cells.values()
        for repetition, end in cell.counted.items()
        if end.run == stage.runner.progress.first_run
    )
    cell, repetition = first
    cell.counted[repetition] = replace(cell.counted[repetition], seconds=9.0)
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(stage.line("6/6")))
        if cell.cell.label("nodes") == "2":
            await pilot.press("down")
        await until(pilot, lambda: bool(stage.line("run-0 ", "9 s (incl. host start)")))
        assert stage.text().count("incl. host start") == 1
        await pilot.press("q")


async def test_a_key_copies_the_command_that_runs_a_study_longer(tmp_path: Path) -> None:
    stage = guessing_stage(tmp_path)
    command = "rankboard study three-ways --new --dataset digits --epochs 20"
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(stage.line("▶ n run it again")))
        await pilot.press("y")
        await until(pilot, lambda: stage.app.clipboard == command)
        await pilot.press("n", "escape", "q")
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.next_length is None


async def test_a_study_of_somebody_else_is_not_run_again_by_a_key(tmp_path: Path) -> None:
    stage = guessing_stage(tmp_path)
    (stage.runner.folder.path / "place.mac").write_text("of somebody else")
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(stage.line("▌ ▶ y copy the command with 20 epochs")))
        assert "n Run longer" not in stage.text()
        await pilot.press("q")


async def test_a_study_of_which_all_runs_are_refused_says_why(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ("all_reduce", "ring", "ddp"), "there are no data")
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: bool(stage.line("Three ways", "✗ failed")))
        assert stage.line("▌ ✗ 3 of 12 runs failed: there are no data (")
        assert stage.line("▌ 9 runs left: all so far failed for one reason")
        await pilot.press("q")
    assert not stage.sessions


async def test_q_asks_and_stops_the_study_which_then_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.runs(pilot, 1)
        await until(pilot, lambda: isinstance(stage.app.screen, StudyScreen))
        await pilot.press("q")
        await asked(pilot)
        assert "The study is still running" in stage.text()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, StudyScreen))
        assert not stage.sessions[0].stops
        await pilot.press("q")
        await asked(pilot)
        await pilot.press("right", "right", "enter")
        await until(pilot, lambda: bool(stage.sessions[0].stops))
        await until(pilot, lambda: bool(stage.line("◐ stopping")))
        stopped(stage.sessions[0])
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.exit_code == 130
    assert len(stage.sessions) == 1
    again = acted_runner(tmp_path / "runs")
    assert (again.progress.num_settled, again.progress.open) == (0, {})


async def test_the_help_begins_with_the_keys_of_a_study(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.runs(pilot, 1)
        await until(pilot, lambda: isinstance(stage.app.screen, StudyScreen))
        await pilot.press("question_mark")
        await until(pilot, lambda: "list the runs of the chosen cell" in stage.text())
        await pilot.press("escape")
        stage.runner.stop("enough")
        stopped(stage.sessions[0])


async def test_the_answer_stands_on_top_and_compared_losses_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_runs: list[str] = []

    def read_points(folder: Path, _: int) -> LossCourse:
        read_runs.append(folder.name)
        return LossCourse([(1, 2.3), (40, 0.5 + len(read_runs) % 50 / 10)])

    monkeypatch.setattr(loss_curves, "read_loss_points", read_points)
    stage = Stage(tmp_path)
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.make(pilot, by_method)
        await pilot.press("home")
        await until(
            pilot, lambda: bool(stage.line("─ training loss at nodes 1:  ● all_reduce  ● a ring"))
        )
        lines = stage.text().splitlines()
        answer_row = lines.index(stage.line("no method is shown to be faster"))
        assert answer_row < lines.index(stage.line("method", "s/iter", "against all_reduce"))
        await pilot.press("down", "down", "down")
        await until(pilot, lambda: bool(stage.line("training loss at nodes 2: ", "● ddp")))
        cells = stage.runner.progress.cells.values()
        compared = [cell for cell in cells if cell.cell.label("nodes") == "2"]
        runs = [end.run for cell in compared for end in cell.counted_runs]
        assert read_runs[-6:] == runs
        await pilot.press("q")


WHOLE_HEAD = "─ training loss of all_reduce, a ring of two and ddp (same):  ● nodes 1  ● nodes 2"


@pytest.mark.parametrize(
    ("size", "head"),
    [
        ((120, 40), f"{WHOLE_HEAD}  (means of runs) ─"),
        ((96, 40), f"{WHOLE_HEAD} ─"),
        ((66, 40), "─ training loss:  ● nodes 1  ● nodes 2  (means of runs) ─"),
        ((50, 40), "─ training loss:  ● nodes 1  ● nodes 2 ─"),
    ],
)
async def test_lines_that_coincide_are_one_line_of_each_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], head: str
) -> None:
    stage = Stage(tmp_path)

    def read_points(folder: Path, _: int) -> LossCourse:
        cells = stage.runner.progress.cells.values()
        places = {end.run: cell.cell.place for cell in cells for end in cell.counted_runs}
        return LossCourse([(1, 2.3), (40, 0.5 * places[folder.name].nodes)])

    monkeypatch.setattr(loss_curves, "read_loss_points", read_points)
    async with stage.app.run_test(size=size) as pilot:
        await stage.make(pilot, by_method)
        await until(pilot, lambda: bool(stage.line(head)))
        await pilot.press("q")
