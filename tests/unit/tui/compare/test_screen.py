"""The screen that compares runs: by step and by time, in any size."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Static

from remote.events import SessionClosed
from remote.plan.plan import Script
from remote.record import marks
from remote.record.read import load_plan
from remote.record.watch import WatchedRun
from tests.kit.acted import until
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan, said
from tests.kit.looks import screen_text
from tests.kit.recorded import recorded
from tests.kit.scripts import ended, script, started
from training.job import Job
from training.wire.rank_events import Evaluated, StepFinished
from tui.app.compare_app import CompareApp
from tui.app.watch_app import WatchApp
from tui.charts.chart import Chart
from tui.commands.compare import compare
from tui.compare.screen import CompareScreen
from tui.kit.inks import DARK, LIGHT
from tui.kit.widgets.verdict_strip import VerdictStrip
from tui.run.screen import RunScreen

Run = Callable[..., Done]
assert run  # the fixture
METHODS = ("ddp", "ring", "all_reduce", "gather_scatter")


def history(
    name: str,
    sync: str,
    times: float = 1.0,
    tests: int = 2,
    lr: float = 0.1,
    accuracies: Sequence[float] = (0.775, 0.85),
) -> History:
    """A run of 30 steps, each of a tenth of a second, or so many times that. `accuracies`: those of
    the tests, one for each."""
    made = History(replace(plan(2), run=name, work=Job(sync=sync, lr=lr)))
    made.training()
    for step in range(1, 31):
        made.now += 0.1 * times - 0.02  # which its records take
        for rank in (0, 1):
            seconds = times * (0.1 + 0.001 * (step % 2))
            made.rank(
                rank, StepFinished(rank, 1, step, 2.0 / step, seconds, samples=32, sync=seconds / 4)
            )
        if tests and step % (30 // tests) == 0:
            number = step * tests // 30
            made.rank(0, Evaluated(0, number, step, 0.5, accuracies[number - 1], 100, 1.0))
    return made


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Eight runs, each a little slower than the one before."""
    made = []
    for number in range(8):
        one = history(f"20261123-{number}", METHODS[number % 4], 1 + number / 2)
        made.append(recorded(tmp_path / "runs", one.done(0, 1).session(SessionClosed())))
    return made


def unspaced(app: CompareApp) -> str:
    """What is on the screen, without any space: lines may break anywhere."""
    return "".join(screen_text(app).split())


async def lines_with(pilot: Pilot[None], words: str) -> list[str]:
    """The lines of the screen that have these words, once there are any."""
    await until(pilot, lambda: words in screen_text(pilot.app))
    return [line for line in screen_text(pilot.app).splitlines() if words in line]


async def shown(pilot: Pilot[None], words: str) -> None:
    app = pilot.app
    assert isinstance(app, CompareApp)
    await until(pilot, lambda: words in screen_text(app))


async def test_two_runs_with_a_verdict_what_differs_and_figures(runs: Sequence[Path]) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "A 20261123-0 was 1.5x faster per step (100 ms, B 151")
        await shown(pilot, "test accuracy (%) by training time")
        found = screen_text(app)
        sooner = "andreached85%accuracysooner(3.0s,B4.5s):oneruneach,notyetproven"
        assert sooner in unspaced(app).replace("▌", "")
        await pilot.press("v")
        await shown(pilot, "v hides")
        found = screen_text(app)
        facts = {line[:16].strip(): line[16:].split("  ") for line in found.splitlines()}
        cells = {
            label: [cell.strip() for cell in row if cell.strip()] for label, row in facts.items()
        }
        assert cells["sync"] == ["ddp", "ring"]
        assert cells["outcome"] == ["✓ finished", "✓ finished"]
        assert cells["test accuracy"][-1] == "the same"
        assert "▶ t copy the command to repeat A" in found, "which the caveat asks for"
        assert "y copy the command of A" in found
        assert cells["samples/s"][-1] == "▲ 33.3% less"
        assert cells["time to 85%"][-1] == "▲ 49.5% longer"
        slower = next(line for line in found.splitlines() if "time per step  " in line)
        first, second = (len(bar) for bar in re.findall("━+", slower))
        assert second == pytest.approx(1.5 * first, abs=1), "a bar for each run, on one scale"
        (alike,) = (line for line in found.splitlines() if "sync share  " in line)
        assert "━" not in alike, "bars of one length show nothing"
        rows = [line.split("  ")[0].strip() for line in found.splitlines()]
        assert rows.index("time per step") < rows.index("test loss"), "what differs is first"
        assert found.startswith(" compare: A 20261123-0, B 20261123-1")
        columns = [line.index("━") for line in found.splitlines() if " ━" in line]
        assert len(set(columns)) == 1, "all bars of a run begin at one place"


async def test_the_chart_marks_where_each_run_reaches_the_accuracy_of_all(
    runs: Sequence[Path],
) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "◆ first at 85%+")
        assert screen_text(app).count("◆") == 3, "once in the title, and for each run"
        for label in ("A 3.0 s", "B 4.5 s"):
            assert label in screen_text(app)
        await pilot.press("x")
        await shown(pilot, "test accuracy (%) by step")
        assert "◆ first at 85%+" in screen_text(app)
        assert "A 3.0 s" not in screen_text(app)


@pytest.mark.parametrize(("width", "titles"), [(119, 1), (120, 2)])
async def test_a_wide_screen_has_a_second_chart(
    runs: Sequence[Path], width: int, titles: int
) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(width, 40)) as pilot:
        await shown(pilot, "test accuracy (%) by training time")
        assert screen_text(app).count(" by training time") == titles
        await pilot.press("c", "c")
        await shown(pilot, "training loss by training time")
        assert screen_text(app).count(" by training time") == titles
        assert ("test accuracy (%) by training time" in screen_text(app)) == (titles == 2)


async def test_a_chart_without_values_leaves_its_room_to_the_other(tmp_path: Path) -> None:
    folders = []
    for name in "ab":
        made = started(replace(script(1, 2), run=name))
        for step in range(1, 31):
            made.now += 0.1
            for rank in (0, 1):
                made.say(0, said(rank, f"step={step} loss={2 / step:g}", "stdout"))
        folders.append(recorded(tmp_path / "runs", ended(made).session(SessionClosed())))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "time per step")
        assert screen_text(app).count(" by training time") == 1
        assert "another seed" not in screen_text(app), "a script has a seed of its own"


async def test_a_more_accurate_run_is_to_be_taken_though_it_is_slower(tmp_path: Path) -> None:
    folders = []
    for name, sync, times, accuracy in (("a", "ddp", 1.0, 0.6), ("b", "ring", 2.0, 0.9)):
        made = history(name, sync, times, tests=0)
        for epoch in (1, 2):
            made.rank(0, Evaluated(0, epoch, 15 * epoch, 0.4, accuracy, 1000, 1.0))
        folders.append(recorded(tmp_path / "runs", made.done(0, 1).session(SessionClosed())))
    app = CompareApp(folders)
    async with app.run_test(size=(200, 40)) as pilot:
        await shown(
            pilot, "B b was more accurate (90.0%, A 60.0%), although A reached 60% accuracy sooner"
        )
        assert "sooner and was 2.0x faster per step: one run" in screen_text(app), "without numbers"
        await pilot.press("y")
        await until(pilot, lambda: "ring" in app.clipboard)


async def test_a_repetition_has_the_settings_of_the_run_to_take_and_a_seed_that_no_run_had(
    tmp_path: Path,
) -> None:
    folders = []
    for name, sync, times, seed in (("a", "ddp", 2.0, 7), ("b", "ring", 1.0, 5)):
        made = history(name, sync, times)
        made.plan = replace(made.plan, work=Job(sync=sync, seed=seed))
        folders.append(recorded(tmp_path / "runs", made.done(0, 1).session(SessionClosed())))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "▶ t copy the command to repeat B")
        await pilot.press("t")
        await until(pilot, lambda: "--seed 8" in app.clipboard)
        assert "--sync ring" in app.clipboard


async def test_each_run_in_the_verdict_has_the_ink_of_its_curve(runs: Sequence[Path]) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "A 20261123-0 was 1.5x faster per step (100 ms, B 151")
        verdict = app.screen.query_one(VerdictStrip).render()
        assert isinstance(verdict, Content)
        first_line = verdict.split("\n")[0]
        inked = {
            str(span.style): first_line.plain[span.start : span.end] for span in first_line.spans
        }
        assert inked[DARK.by_number(0)] == "A 20261123-0"
        assert inked[DARK.by_number(1)] == "B"


async def test_that_the_run_to_take_overfitted_is_the_one_caveat_below_neutral_praise(
    tmp_path: Path,
) -> None:
    folders = []
    for name, sync, times, losses in (
        ("20261123-a", "ddp", 1.0, [0.2, 0.3, *[0.35] * 8]),
        ("20261123-b", "ring", 2.0, [0.2, 0.3, *[0.4] * 8]),
    ):
        made = history(name, sync, times, tests=0)
        for epoch, loss in enumerate(losses, 1):
            made.rank(0, Evaluated(0, epoch, 3 * epoch, loss, 0.8, 100, 1.0))
        folders.append(recorded(tmp_path / "runs", made.done(0, 1).session(SessionClosed())))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        (line,) = await lines_with(pilot, "overfitted after epoch 1 (test loss 0.2 to 0.35), ")
        assert "no worse than B (0.4)" in line
        assert line.startswith("▌ ▲ A")
        assert "one run each" not in line, "the title says it"
        (praise,) = await lines_with(pilot, "2.0x faster per step")
        assert praise.startswith("▌ A "), "neither green nor amber"
        assert "B overfitted" not in screen_text(app), "the table says it of the other one"
        assert "test loss by training time" in screen_text(app), "the second chart shows it"
        (outcomes,) = await lines_with(pilot, "outcome  ")
        assert outcomes.count("▲ overfitted") == 2


async def test_a_run_that_is_sooner_at_an_accuracy_is_taken_though_the_work_of_a_step_is_the_same(
    tmp_path: Path,
) -> None:
    folders = []
    for name, lr, times, accuracies in (
        ("a", 0.1, 1.0, (0.6, 0.7, 0.9)),
        ("b", 0.3, 1.2, (0.9, 0.91, 0.9)),
    ):
        made = history(name, "ddp", times, tests=3, lr=lr, accuracies=accuracies)
        folders.append(recorded(tmp_path / "runs", made.done(0, 1).session(SessionClosed())))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        (title,) = await lines_with(pilot, "not yet proven")
        assert re.search(r"B b reached 90% accuracy sooner \(1\.\d s, A 3\.\d s\): one run", title)
        (times_row,) = await lines_with(pilot, "time per step  ")
        assert " 20.0% longer, due to the machine, not to lr" in times_row, "in one line"
        assert "≈" not in times_row, "that is no chance"


async def test_a_run_is_only_to_be_taken_if_a_repetition_shows_how_far_equal_runs_are_apart(
    tmp_path: Path,
) -> None:
    folders = []
    for name, sync, times, seed in (
        ("a", "ddp", 2.0, 0),
        ("b", "ddp", 2.02, 1),
        ("c", "ring", 1, 0),
    ):
        made = history(name, sync, times)
        made.plan = replace(made.plan, work=Job(sync=sync, seed=seed))
        folders.append(recorded(tmp_path / "runs", made.done(0, 1).session(SessionClosed())))
    for chosen, title, key, style in (
        (folders, "Take C c: it was the fastest per step", "✓ better  ", "$text-success"),
        ([folders[0], folders[2]], "B c was 2.0x faster per step", "✓ better so far", ""),
    ):
        app = CompareApp(chosen)
        async with app.run_test(size=(120, 40)) as pilot:
            await shown(pilot, title)
            assert key in screen_text(app)
            assert style_of(app, "✓ 50.0% shorter") == style, "green is for what is proven"


def list_labels(app: CompareApp) -> list[str]:
    """The labels of the rows of the table."""
    lines = screen_text(app).splitlines()
    table = lines[next(at for at, line in enumerate(lines) if "✓ better" in line) + 1 :]
    return [line[1:].split("  ")[0].strip() for line in table]


async def test_a_key_shows_all_rows_and_at_first_there_are_those_of_the_verdict(
    runs: Sequence[Path],
) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 24)) as pilot:
        await shown(pilot, "more rows: v shows all")
        main_rows = ["", "sync", "test accuracy", "time to 85%", "time per step"]
        assert list_labels(app)[:5] == main_rows
        (hint,) = await lines_with(pilot, "more rows")
        num_folded = int(hint.split()[0])
        await pilot.press("v")
        all_rows = {*main_rows, "outcome", "95% interval", "samples/s", "test loss"}
        await until(pilot, lambda: all_rows <= {*list_labels(app)})
        await pilot.press("v")
        await shown(pilot, f"{num_folded} more rows: v shows all")


async def test_rows_that_follow_from_the_time_per_step_are_folded_however_much_room_there_is(
    runs: Sequence[Path],
) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "4 more rows: v shows all")
        labels = {*list_labels(app)}
        assert {"sync", "outcome", "time per step", "test loss"} <= labels
        restated = {"95% interval", "samples/s", "training time", "total time"}
        assert labels.isdisjoint(restated)
        assert app.screen.query_one("#charts").size.height >= 14
        await pilot.press("v")
        await shown(pilot, "v hides what says little more")
        assert restated - {"total time"} <= {*list_labels(app)}
        await shown(pilot, "sync share, sent per step: of")


async def test_without_tests_other_figures_fill_the_rows_that_stand_there_at_first(
    tmp_path: Path,
) -> None:
    folders = []
    for name, sync, times in (("a", "ddp", 1.0), ("b", "ring", 2.0)):
        made = history(name, sync, times, tests=0).done(0, 1).session(SessionClosed())
        folders.append(recorded(tmp_path / "runs", made))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 24)) as pilot:
        await shown(pilot, "more rows: v shows all")
        figures = list_labels(app)[2:]
        assert figures[:2] == ["time per step", "training loss"]


async def test_a_run_that_is_faster_by_its_machine_alone_is_not_the_one_to_take(
    tmp_path: Path,
) -> None:
    folders = [
        recorded(tmp_path, history(name, "ddp", times, lr=lr).ended())
        for name, lr, times in (("a", 0.1, 1.5), ("b", 0.3, 1.0))
    ]
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "Take either: B b against A a, \N{MINUS SIGN}33.3% per step")
        (times_row,) = await lines_with(pilot, " 33.3% shorter, due to the machine")
        assert times_row.lstrip().startswith("time per step")


async def test_a_key_switches_steps_and_time_and_another_one_the_figure(
    runs: Sequence[Path],
) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "test accuracy (%) by training time")
        await pilot.press("x")
        await shown(pilot, "test accuracy (%) by step")
        chart = app.screen.query_one(Chart)
        runs_curves = [curve for curve in chart._curves if not curve.faint]
        assert [curve.x[-1] for curve in runs_curves] == [30, 30]
        assert [curve.mean[-1] for curve in runs_curves] == [pytest.approx(85.0)] * 2
        for title in ("test loss", "training loss", "training accuracy (%)", "test accuracy (%)"):
            await pilot.press("c")
            await shown(pilot, f"{title} by step")
        await pilot.press("x")
        first, second = (float(curve.x[-1]) for curve in chart._curves if not curve.faint)
        assert second == pytest.approx(1.5 * first, rel=0.02), "wall time, not steps"


@pytest.mark.parametrize(("count", "faint"), [(2, 2), (3, 0)])
async def test_curves_have_their_letters_and_few_runs_their_single_steps(
    runs: Sequence[Path], count: int, faint: int
) -> None:
    app = CompareApp(runs[:count])
    async with app.run_test(size=(100, 40)) as pilot:
        await shown(pilot, "test accuracy (%) by")
        await pilot.press("c", "c")
        await shown(pilot, "training loss by training time  ema .9")
        chart = app.screen.query_one(Chart)
        assert sum(curve.faint for curve in chart._curves) == faint
        await until(pilot, lambda: {"A", "B"} <= set(words_in(chart)))


def words_in(chart: Chart) -> list[str]:
    """What stands in the chart, such as the letters beside the ends of the curves."""
    rows = [chart.render_line(row).text for row in range(chart.size.height - 1)]
    return [word for row in rows for word in row.split()]


async def test_the_table_has_the_colours_of_the_theme(runs: Sequence[Path]) -> None:
    app = CompareApp(runs[:2])
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "● A 20261123-0")
        for theme, colours in (("textual-light", LIGHT.series), ("textual-dark", DARK.series)):
            app.theme = theme
            await until(pilot, lambda: colours[0] in head_styles(app))  # noqa: B023


def head_styles(app: CompareApp) -> str:
    """The styles of the table of facts."""
    content = app.screen.query_one("#table", Static).content
    assert isinstance(content, Content)
    return " ".join(str(span.style) for span in content.spans)


def style_of(app: CompareApp, words: str) -> str:
    """The style of these words in the table of facts."""
    content = app.screen.query_one("#table", Static).content
    assert isinstance(content, Content)
    at = content.plain.index(words)
    return "".join(str(span.style) for span in content.spans if span.start <= at < span.end)


async def test_runs_that_were_not_tested_are_compared_by_their_loss(tmp_path: Path) -> None:
    made = [recorded(tmp_path, history(name, "ddp", tests=0)) for name in ("a", "b")]
    app = CompareApp(made)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "B b repeats A a")
        await shown(pilot, "training loss by training time")
        assert "time to" not in screen_text(app)


async def test_eight_runs_fit_a_small_screen(runs: Sequence[Path]) -> None:
    app = CompareApp(runs)
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "A 20261123-0")
        await shown(pilot, "test accuracy")
        lines = screen_text(app).splitlines()
        assert all(len(line) <= 80 for line in lines)
        await pilot.press("pagedown")
        (changes,) = await lines_with(pilot, "against A")
        assert changes.count("≈") == 7, "each but the first"
        await pilot.press("v")
        (outcomes,) = await lines_with(pilot, "outcome  ")
        assert outcomes.count("✓") == 8


@pytest.mark.parametrize("size", [(1, 1), (39, 9), (40, 10), (60, 20), (300, 100)])
async def test_any_size(runs: Sequence[Path], size: tuple[int, int]) -> None:
    app = CompareApp(runs[:3])
    async with app.run_test(size=size) as pilot:
        (screen,) = (one for one in app.screen_stack if isinstance(one, CompareScreen))
        await until(pilot, lambda: bool(screen._compared))
        for key in "xclcl":
            await pilot.press(key)
            screen_text(app)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: app.screen is screen)
        await shown(pilot, " by ")


async def test_a_run_that_cannot_be_read_is_told(runs: Sequence[Path]) -> None:
    (runs[1] / "plan.json").write_text("{}")
    app = CompareApp(runs[:2])
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "isnotaplan" in unspaced(app).replace("▌", ""))
        await pilot.press("x", "c")
        await pilot.press("q")
    assert app.exit_code == 0


async def test_a_run_that_goes_before_it_is_read_is_told(runs: Sequence[Path]) -> None:
    shutil.rmtree(runs[1])
    app = CompareApp(runs[:2])
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "plan.json:Nosuchfile" in unspaced(app))


async def test_a_run_is_compared_with_the_last_one_like_it(runs: Sequence[Path]) -> None:
    app = WatchApp(WatchedRun(runs[4], load_plan(runs[4])))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "finished" in screen_text(app))
        await pilot.press("C")
        await until(pilot, lambda: "most alike first" in screen_text(app))
        await until(pilot, lambda: "the same settings" in screen_text(app))
        lines = [
            line
            for line in screen_text(app).splitlines()
            if "20261123-" in line and "85.0%" in line
        ]
        assert ["the same settings" in line for line in lines] == [True] + 6 * [False]
        assert "20261123-0" in lines[0]
        assert re.search(r"sync \w+ \| \w+", lines[1]), "both values"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await until(pilot, lambda: "● B 20261123-0" in screen_text(app))
        assert "● A 20261123-4" in screen_text(app), "the run that the user came from"
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
    app.finish()


async def test_a_run_is_told_by_its_name(runs: Sequence[Path]) -> None:
    marks.write_name(runs[0], "baseline")
    app = CompareApp(runs[:2])
    async with app.run_test(size=(120, 40)) as pilot:
        await shown(pilot, "A baseline was 1.5x faster per step")
        assert "● A baseline" in screen_text(app)
        assert "all: " not in screen_text(app), "they have other methods"
        await pilot.press("q")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_of_a_script_and_a_job_what_both_have_comes_first(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    job = history("job", "ring")
    script = History(replace(plan(4), run="script", work=Script(("train.py",)))).training(3)
    app = CompareApp([recorded(tmp_path, script.ended()), recorded(tmp_path, job.ended())])
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "ranks" in screen_text(app))
        labels = [line.strip().split("  ")[0] for line in screen_text(app).splitlines()]
        assert labels.index("ranks") < labels.index("outcome")
        assert "batch-size" not in labels[: labels.index("outcome")]
        await pilot.press("q")


async def test_a_run_that_diverged_is_never_the_better_one(tmp_path: Path) -> None:
    fast = history("fast", "ring", 0.5)
    for rank in (0, 1):
        fast.rank(rank, StepFinished(rank, 1, 31, math.nan, 0.05, samples=32))
    folders = [recorded(tmp_path, fast.ended()), recorded(tmp_path, history("slow", "ddp").ended())]
    app = CompareApp(folders)
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "▲ Take B slow: A diverged at step 31")
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard != "")
        assert "ring" not in app.clipboard, "the command of the better run"


@pytest.mark.parametrize(("num_sound", "has_goal"), [(1, False), (2, True)])
async def test_what_a_run_that_diverged_has_reached_is_no_goal(
    tmp_path: Path, num_sound: int, has_goal: bool
) -> None:
    spoiled = history("spoiled", "ring", 0.5, tests=0)
    spoiled.rank(0, Evaluated(0, 1, 15, 2.0, 0.22, 100, 1.0))
    for rank in (0, 1):
        spoiled.rank(rank, StepFinished(rank, 1, 31, math.nan, 0.05, samples=32))
    folders = [recorded(tmp_path, spoiled.ended())]
    for number in range(num_sound):
        folders.append(recorded(tmp_path, history(f"sound-{number}", "ddp").ended()))
    app = CompareApp(folders)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "time per step" in screen_text(app))
        assert "time to 22%" not in screen_text(app)
        assert ("time to 85%" in screen_text(app)) == has_goal


@pytest.mark.parametrize(
    ("order", "verdict"),
    [
        (
            (0, 1, 2),
            "A 20261123-0 was the fastest per step (1.5x faster than B)",
        ),
        (
            (2, 1, 0),
            "C 20261123-0 was the fastest per step (2.0x faster than A)",
        ),
    ],
)
async def test_of_several_runs_the_fastest_is_named_wherever_it_stands(
    runs: Sequence[Path], order: tuple[int, ...], verdict: str
) -> None:
    app = CompareApp([runs[place] for place in order])
    async with app.run_test(size=(160, 40)) as pilot:
        await shown(pilot, verdict)


async def test_a_difference_that_may_be_chance_is_called_so(tmp_path: Path) -> None:
    folders = [
        recorded(tmp_path, history("one", "ddp").ended()),
        recorded(tmp_path, history("two", "ring", 1.01).ended()),
    ]
    app = CompareApp(folders)
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "Take either: B two is as fast as A one (+1.0% per step)")
        (line,) = await lines_with(pilot, "time per step  ")
        assert line.rstrip().endswith("≈ 1.0% longer")
        assert "≈ may be chance" in screen_text(app)


async def test_the_choice_of_a_run_uses_the_width(runs: Sequence[Path]) -> None:
    app = WatchApp(WatchedRun(runs[4], load_plan(runs[4])))
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: "finished" in screen_text(app))
        await pilot.press("C")
        await until(pilot, lambda: "the same settings" in screen_text(app))
        frame = next(line for line in screen_text(app).splitlines() if "compare 20261123-4" in line)
        assert len(frame.strip()) > 140
        await pilot.press("escape")
    app.finish()


async def test_without_another_run_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    folder = recorded(tmp_path, history("alone", "ddp"))
    app = WatchApp(WatchedRun(folder, load_plan(folder)))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "step 30/" in screen_text(app))
        await pilot.press("C")
        await until(pilot, lambda: "there is no other run" in screen_text(app))
        await pilot.press("enter", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
    app.finish()


@pytest.mark.parametrize(
    ("flags", "named", "message"),
    [
        ({"dashboard": True}, range(2), "--dashboard needs a terminal on stdin, stdout and stderr"),
        ({"dashboard": True}, [*range(8), "last"], "compare needs 2 to 8 runs: 9 given"),
        ({"dashboard": True, "json": True}, range(2), "--json, --markdown and --dashboard exclude"),
    ],
)
def test_mistakes(
    run: Run, runs: list[Path], flags: dict[str, bool], named: Sequence[object], message: str
) -> None:
    names = [one if isinstance(one, str) else f"20261123-{one}" for one in named]
    done = run(compare, runs=names, **flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rankboard: {message}")
