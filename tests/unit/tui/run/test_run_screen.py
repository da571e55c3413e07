"""The dashboard over a run: what it shows, its keys, and the way out."""

from __future__ import annotations

import re
import string
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from textual.events import Key, MouseDown, MouseUp
from textual.pilot import Pilot

from remote import events as launcher
from remote.plan.plan import Policy, Script
from remote.record.layout import PLAN
from remote.record.marks import write_name
from remote.run.state.phases import Verdict
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.dashboard import Stage, asked
from training.job import Job
from training.wire import host_events
from training.wire.events import SESSION
from tui.app.app import RankboardApp
from tui.app.help import HelpDialog
from tui.charts.chart import Chart
from tui.charts.panel import Charts
from tui.kit.dialogs import Dialog, LeaveDialog, QuitDialog, TooSmall
from tui.kit.inks import DARK, LIGHT
from tui.kit.key_names import parse_key
from tui.kit.open_runs import LaunchRequest
from tui.kit.panel import Panel
from tui.launch.screen import LaunchScreen
from tui.log.panel import LogPanel
from tui.log.view import LogView
from tui.run.components.header import RunHeader
from tui.run.hosts_panel import HostsPanel
from tui.run.ranks_panel import RanksPanel
from tui.run.screen import RunScreen
from tui.run.stacks_screen import StacksScreen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_all_that_matters_is_on_the_screen(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        parts = [
            "ddp, lenet5 on digits, 4 ranks",
            "● training",
            "epoch 1/4",
            "step 60/400",
            "elapsed",
            "ETA",
            "node1",
            "node2",
            " 60 ",
            "20 ms",
            "busy",
            "▄▄▄▄▄▆ compute 75%",
            "loss",
            "epoch 1 step 60 loss",
            "q Stop",
            "? Help",
        ]
        await until(pilot, lambda: all(part in stage.text() for part in parts))
        text = stage.text()
        assert ("step time" in text) == (size[0] >= 110)
        assert ("accuracy" in text) == (size[0] >= 110)
        assert ("ranks over time" in text) == (size[0] >= 170)
        stage.session.finish(60, 1)
        await stage.ended(pilot)


async def test_a_script_without_a_step_says_when_steps_show_and_at_its_end_that_none_did() -> None:
    stage = Stage(hosts=1, slots=1)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Script(("train.py",)))
    async with stage.shown() as pilot:
        stage.session.say(0, host_events.Launched((0,)), host_events.Spawned(0, 7))
        await until(pilot, lambda: "steps show once torch makes them" in stage.text())
        assert not any(chart.display for chart in stage.screen.query(Charts)), "they are empty"
        stage.session.say(0, host_events.Exited(0, 1))
        stage.session.close()
        await stage.ended(pilot)
        await until(pilot, lambda: "no steps were seen" in stage.text())
        assert "yet" not in stage.text()


async def test_how_long_the_run_will_be_is_known_before_its_ranks_say_so() -> None:
    stage = Stage()
    job = Job(dataset="cifar10", batch_size=256, epochs=3)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=job)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "epoch 0/3  step 0/588" in stage.text())
        stage.session.close()
        await stage.ended(pilot)


async def test_on_a_low_screen_a_finished_run_is_summed_up_briefly() -> None:
    stage = Stage()
    async with stage.training(size=(80, 24)) as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        text = stage.text()
        assert "test accuracy 94.7%" in text
        assert re.search(r"s training \(\d+% ", text)
        assert "mean over classes" not in text
        assert stage.screen.query_one("VerdictPanel VerdictStrip").size.height <= 4
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "mean over classes" in stage.text())


async def test_a_failure_shows_its_cause() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.fail(rank=1)
        await stage.ended(pilot)
        text = stage.text()
        assert "node1, rank 1: killed by SIGKILL at step 60" in text
        assert "✗ failed" in text
        assert "✗ taken down" in text
        assert stage.screen.query_one("VerdictPanel VerdictStrip").has_class("-bad")
    assert stage.app.exit_code == Verdict.FAILED.value


async def test_a_finished_run_is_summed_up() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        text = stage.text()
        assert "✓ finished in" in text
        assert re.search(r"✓ finished in \S+ s without problems: test accuracy 94.7%", text)
        assert (
            "mean over classes: precision 85.4%, recall 85.0%, F1 85.0%; all in report.txt" in text
        )
        assert "by each rank's own model: rank 0 90.0%, rank 1 91.0%" in text
        assert re.search(r"1\d\d ms/step", text)
        await pilot.press("q")
        await pilot.pause()
    assert stage.app.exit_code == 0


async def test_new_run_only_after_the_end() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        await pilot.press("n")
        assert isinstance(stage.app.screen, RunScreen)
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(stage.app.screen, LaunchScreen))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(stage.sessions) == 2)
        assert stage.sessions[0].plan.run != stage.session.plan.run
        await stage.train(pilot, 7)
        stage.session.fail()
        await stage.ended(pilot)
    assert stage.app.exit_code == Verdict.FAILED.value


async def test_numbers_lead_to_panels_and_bring_hidden_ones_up() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        for panel in stage.screen.query(Panel):
            if panel.number > 9:  # of the charts that are hidden, the last ones have no key
                continue
            await pilot.press(str(panel.number))
            await pilot.pause()
            assert panel.display
            assert panel.region.height > 2
            assert stage.app.focused is not None
            assert panel in stage.app.focused.ancestors


async def test_zoom_and_log_axis_and_log_keys() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("3", "z")
        await pilot.pause()
        loss = stage.screen.query(Charts).first()
        assert loss.size.height > 35
        await pilot.press("l")
        await until(pilot, lambda: "log" in stage.text().splitlines()[0])
        assert loss.query_one(Chart).options.log_y
        await pilot.press("z")
        await pilot.pause()
        assert loss.size.height < 30

        log = stage.screen.query_one(LogView)
        wanted = []
        for _ in range(6):
            await pilot.press("r")
            wanted.append(log.filter.rank)
        assert wanted == [0, 1, 2, 3, -1, None]
        await pilot.press("r", "A")
        assert log.filter.rank is None
        await pilot.press("f")
        await pilot.pause()
        assert "all ranks, paused" in stage.text()
        await pilot.press("f", "2", "home")
        await until(pilot, lambda: not log.follow)
        stage.session.steps(61, 80)
        await stage.heard(pilot, 80)
        assert "paused, 4 new" in stage.text()


async def test_each_panel_zoomed_takes_the_whole_screen() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        for panel in stage.screen.query(Panel):
            if panel.number > 9:  # of the charts that are hidden, the last ones have no key
                continue
            await pilot.pause()  # the layout has settled
            before = panel.size.height
            await pilot.press(str(panel.number), "z")
            await until(pilot, lambda panel=panel: panel.size.height >= 20)
            await pilot.press("z")
            await until(
                pilot, lambda panel=panel, before=before: not before or panel.size.height == before
            )


async def test_a_key_that_leads_to_a_panel_has_done_so_when_the_next_one_comes() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)):
        stage.screen.action_panel(3)
        stage.screen.action_zoom()
        assert stage.screen.maximized is stage.screen.query(Charts).first()


async def test_on_a_narrower_terminal_no_row_is_left_blank() -> None:
    stage = Stage()
    async with stage.training(size=(200, 60)) as pilot:
        await pilot.resize_terminal(80, 24)
        await until(
            pilot,
            lambda: (
                "³loss" in stage.text().splitlines()[3]
                and "step 60/400" in stage.text().splitlines()[1]
            ),
        )


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_charts_mark_where_the_run_was_started_again(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.training(size=size) as pilot:
        begun = stage.session.state.progress.begun
        assert begun
        assert "┊" not in stage.text()
        stage.session.say(SESSION, launcher.Restarted((0, 1), "rank 1 was killed"))
        stage.session.say(0, replace(begun, resumed=50))
        stage.session.steps(51, 100)
        await stage.heard(pilot, 100)
        # Low charts have no line for marks.
        await until(pilot, lambda: marks(stage).count("R") >= 1)
        num_marks = marks(stage).count("R")
        await pilot.press("3", "M")
        await until(pilot, lambda: marks(stage).count("R") == num_marks - 1)


def marks(stage: Stage) -> str:
    """The charts, above which are the letters of marks; without what explains the letters."""
    _, _, charts_and_below = stage.text().partition(" ³loss")
    return charts_and_below.partition(" ¹ranks")[0].replace("R restart", "")


async def test_a_line_of_the_log_that_goes_on_beyond_the_edge_says_so() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.say(
            0,
            host_events.OutputText(0, "stdout", "long " * 40 + "end"),
            host_events.OutputText(0, "stdout", "short"),
        )
        await until(pilot, lambda: "short" in stage.text())
        long, short = (
            line for line in stage.text().splitlines() if "long long" in line or " short" in line
        )
        assert long.rstrip(" ▁▂▃▄▅▆▇█").endswith("…")
        assert "…" not in short
        stage.session.say(
            0, *(host_events.OutputText(0, "stdout", "long " * 40 + "end") for _ in range(40))
        )
        log = stage.screen.query_one(LogView)
        await until(pilot, lambda: log.show_vertical_scrollbar)
        await until(
            pilot, lambda: [line[78] for line in stage.text().splitlines()[-3:-1]] == ["…"] * 2
        )
        log.scroll_end(animate=False)
        log.scroll_to(x=log.max_scroll_x, animate=False)
        await until(pilot, lambda: " end" in stage.text())


async def test_at_80_columns_a_new_run_is_offered_after_the_end() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await until(pilot, lambda: "n New run" in stage.text())


async def test_help_lists_every_key_of_the_footer() -> None:
    stage = Stage()
    async with stage.shown(size=(80, 120)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
        await until(
            pilot, lambda: all(f"│   {key} " in stage.text() for key in "clrfzenqa!")
        )  # the dialog is drawn a moment later
        text = stage.text()
        assert "│   ranks           every rank: state, step, loss, seconds per step and " in text
        await pilot.press("escape")
        assert isinstance(stage.app.screen, RunScreen)


async def test_a_screenshot_goes_into_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = Stage(runs_dir=tmp_path / "runs")
    async with stage.shown() as pilot:
        await pilot.press("e")
        assert len(list(tmp_path.glob("*.svg"))) == 1
        folder = tmp_path / "runs" / stage.session.plan.run
        folder.mkdir(parents=True)
        await pilot.press("e")
        shots = list(folder.glob("*.svg"))
        assert len(shots) == 1
        assert "<svg" in shots[0].read_text()


EVERY_KEY = [
    *(parse_key(character) for character in string.ascii_lowercase + "DLRSTY01!?./"),
    *("enter", "space", "tab", "shift+tab", "escape", "backspace", "delete"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
]
RUN_KEYS = [
    "q",
    *"nclrRfzseD3",
    "question_mark",
    "tab",
    "1",
    "enter",
    "space",
    "escape",
    "right",
    "ctrl+c",
    "ctrl+q",
    "ctrl+p",
]


def type_ahead(app: RankboardApp, *keys: str) -> None:
    """Press keys while the dashboard is busy: it takes none of them before the last one is
    there."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


async def test_all_commands_are_those_of_the_screen_and_the_screenshot_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no folder of downloads is, nor at home
    stage = Stage(runs_dir=tmp_path / "runs")
    async with stage.training(size=(120, 40), notifications=True) as pilot:
        titles = [command.title for command in stage.app.get_system_commands(stage.screen)]
        assert len(titles) == len(set(titles))
        assert {
            "Charts",
            "Zoom",
            "Stacks",
            "Doctor",
            "All ranks",
            "Panel 3",
            "Screenshot",
            "Theme",
            "Quit",
        } <= set(titles)
        assert not {"New run", "Focus Next", "Copy selected text", "Palette"} & set(
            titles
        )  # a new run only after this one
        await pilot.press("ctrl+p", *"screensh")
        await until(pilot, lambda: re.search(r"Screenshot +e ", stage.text()))
        await pilot.press("enter")
        await until(pilot, lambda: "screenshot:" in stage.text())
        (shot,) = tmp_path.glob("*.svg")
        assert "Search" not in shot.read_text()  # it is of the screen beneath the commands
        await pilot.press("ctrl+p", *"stacks")
        await until(pilot, lambda: re.search(r"Stacks +s ", stage.text()))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, StacksScreen))
        titles = [command.title for command in stage.app.get_system_commands(stage.app.screen)]
        assert {"Back", "Ask again", "Screenshot", "Quit"} <= set(titles)


@pytest.mark.parametrize("word", ["stop", "detach"])
async def test_the_list_of_commands_knows_the_ways_out(word: str) -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot)
        await pilot.press("ctrl+p", *word)
        await until(pilot, lambda: "asks first while a run is live" in stage.text())
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(stage.app.screen, QuitDialog))
        await pilot.press("escape")
        stage.session.close()
        await stage.ended(pilot)


async def test_no_two_keys_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the terminal is slow: what the first key has brought up is drawn, but not yet
    seen, when the second one comes. After a first key that brings up nothing the second one is as
    good as alone. The run cannot be left, which d would do: it goes on then."""
    monkeypatch.setattr(RankboardApp, "deliver_screenshot", lambda self, *where: None)
    stage = Stage(hosts=1, slots=1)
    stage.app.runs.launch = replace(stage.app.runs.launch, ends="it ends")
    async with stage.shown(size=(80, 12)) as pilot:
        await stage.train(pilot, 1)
        over = []
        for first in RUN_KEYS:
            await pilot.press(first)
            if stage.app.screen is not stage.screen:
                over.append(first)
                if first in ("ctrl+c", "ctrl+q"):  # what q asks, which the second keys answer
                    assert isinstance(stage.app.screen, QuitDialog)
                    await close(stage, pilot)
                else:
                    await second_keys(stage, pilot, first)
            assert stage.session.stops == [], first
        keys = ["q", "c", "s", "D", "question_mark", "enter", "ctrl+c", "ctrl+q", "ctrl+p"]
        assert over == keys  # after 1, enter is for the table of ranks


async def test_a_run_that_ends_with_its_launcher_cannot_be_left() -> None:
    stage = Stage()
    stage.app.runs.launch = replace(stage.app.runs.launch, ends="the job ends with this command")
    async with stage.shown(size=(80, 24)) as pilot:
        await stage.train(pilot)
        await pilot.press("q")
        dialog = await asked(pilot)
        assert isinstance(dialog, QuitDialog)
        assert "It cannot be left: the job ends with this command." in dialog.question
        assert not dialog.query("#detach")
        await pilot.press("escape")
        stage.session.close()
        await stage.ended(pilot)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_run_with_a_name_is_called_by_it(tmp_path: Path, size: tuple[int, int]) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.shown(size=size) as pilot:
        await stage.train(pilot)
        run = stage.session.plan.run
        (tmp_path / run).mkdir()
        (tmp_path / run / PLAN).touch()
        write_name(tmp_path / run, "my baseline")
        await pilot.press("q")
        await asked(pilot)
        await pilot.press("escape")
        # What stops the run matters more than its own name.
        first = "stops if this terminal closes  my baseline" if size[0] > 80 else "my baseline"
        await until(pilot, lambda: stage.text().splitlines()[0].rstrip().endswith(first))
        stage.session.close()
        await stage.ended(pilot)


async def second_keys(stage: Stage, pilot: Pilot[None], first: str) -> None:
    """Press each key after the first one, which has brought up the screen that is shown."""
    screen = stage.app.screen
    for second in EVERY_KEY if isinstance(screen, Dialog) else RUN_KEYS:
        if isinstance(screen, Dialog):
            await asked(pilot)
            screen.query_one("#stay").focus()
        await pilot.press(second)
        assert stage.session.stops == [], (first, second)
        assert stage.app.runs.live, (first, second)
        if stage.app.screen is not screen:
            await close(stage, pilot)
            await pilot.press(first)
            screen = stage.app.screen
    await close(stage, pilot)


async def close(stage: Stage, pilot: Pilot[None]) -> None:
    """Close what is over the screen of the run."""
    while stage.app.screen is not stage.screen:
        if isinstance(stage.app.screen, Dialog):
            await asked(pilot)
        await pilot.press("escape")


@pytest.mark.parametrize(
    "keys",
    [("q", "right", "right", "enter"), ("ctrl+c", "left", "enter"), ("q", "q", "s", "enter")],
)
async def test_what_is_typed_while_the_dashboard_is_busy_does_not_stop_a_run(
    keys: tuple[str, ...],
) -> None:
    stage = Stage(hosts=1, slots=1)
    async with stage.shown(size=(80, 12)) as pilot:
        await stage.train(pilot, 1)
        type_ahead(stage.app, *keys)
        await asked(pilot)
        assert stage.session.stops == []
        assert stage.app.screen.focused
        assert stage.app.screen.focused.id == "stay"


async def test_while_a_question_is_not_on_the_screen_no_key_answers_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if drawing took two seconds, in which one types all there is."""
    see = Dialog._see
    monkeypatch.setattr(Dialog, "_see", lambda self: None)
    stage = Stage(hosts=1, slots=1)
    async with stage.shown() as pilot:
        await stage.train(pilot, 1)
        await pilot.press("q")
        dialog = stage.app.screen
        assert isinstance(dialog, QuitDialog)
        await pilot.press(*EVERY_KEY, "right", "right", "enter")
        button = dialog.query_one("#stop").region
        for event in (MouseDown, MouseUp):
            at = (button.x + 1, button.y)
            stage.app.post_message(event(None, *at, 0, 0, 1, False, False, False, *at))
        await pilot.pause()
        assert stage.app.screen is dialog
        assert stage.session.stops == []
        assert not stage.session.detached
        see(dialog)
        await pilot.press("escape")
        assert stage.app.screen is stage.screen


async def test_what_was_typed_before_the_question_was_drawn_does_not_answer_it() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        await pilot.press("q")
        dialog = await asked(pilot)
        for key in ("right", "right", "enter", "d"):
            late = Key(key, None)
            late.time = dialog.drawn - 2.0
            stage.app.post_message(late)
            await pilot.pause()
        assert stage.app.screen is dialog
        assert not stage.session.detached
        await pilot.press("d")
        await until(pilot, lambda: stage.session.detached)
    assert stage.app.exit_code == 0


@pytest.mark.parametrize("opener", ["q", "ctrl+c"])
async def test_quit_asks_and_waits_for_the_end(opener: str) -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        await pilot.press(opener)
        await asked(pilot)
        await pilot.press("enter")
        assert isinstance(stage.app.screen, RunScreen)
        await pilot.press(opener)
        dialog = await asked(pilot)
        await pilot.press("q", "s", "ctrl+c", "ctrl+q", opener)
        assert stage.app.screen is dialog
        assert stage.session.stops == []
        await pilot.press("left", "enter")
        await pilot.pause()
        assert len(stage.session.stops) == 1
        stage.app.tick()
        assert stage.app.is_running
        stage.session.say(SESSION, launcher.Stopping("stopped by the user", True))
        stage.session.close()
        await until(pilot, lambda: not stage.app.runs.live)
        stage.app.tick()
    assert stage.app.exit_code == 130


async def test_stop_and_stay() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        await pilot.press("q")
        await asked(pilot)
        await pilot.press("right", "right", "enter")
        await pilot.pause()
        assert len(stage.session.stops) == 1
        stage.session.say(SESSION, launcher.Stopping("stopped by the user", True))
        stage.session.close()
        await stage.ended(pilot)
        assert "■ stopped" in stage.text()
        assert stage.app.is_running


async def test_a_run_that_is_being_stopped_can_be_left_at_once() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        stage.app.quitting.interrupt()
        assert len(stage.session.stops) == 1
        stage.app.tick()
        assert stage.app.is_running
        await pilot.press("q")
        assert isinstance(await asked(pilot), LeaveDialog)
        await pilot.press("escape", "ctrl+c")
        assert isinstance(await asked(pilot), LeaveDialog)
        await pilot.press("ctrl+c")
    assert stage.app.exit_code == 130
    stage.session.close()


@pytest.mark.parametrize(
    "keys",
    [
        ("q", "s"),
        ("q", "D"),
        ("q", "n"),
        ("q", "question_mark"),
        ("s", "ctrl+q"),
        ("D", "ctrl+q"),
        ("n", "ctrl+q"),
    ],
)
async def test_keys_around_the_one_that_quits_do_no_harm(keys: tuple[str, str]) -> None:
    stage = Stage(hosts=1, slots=1)
    async with stage.app.run_test(size=(80, 12)) as pilot:
        await stage.train(pilot, 1)
        stage.session.finish(1, 1)
        await stage.ended(pilot)
        type_ahead(stage.app, *keys)
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.exit_code == 0


async def test_a_signal_stops_at_once_and_the_dashboard_goes_when_all_has_ended() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        stage.app.quitting.stop_now()
        assert stage.session.stops == ["stopped by the user, now"]
        stage.app.tick()
        assert stage.app.is_running
        stage.session.say(SESSION, launcher.Stopping("stopped by the user", True))
        stage.session.close()
        await until(pilot, lambda: not stage.app.is_running)
    assert stage.app.exit_code == 130


async def test_what_breaks_in_the_session_is_not_hidden() -> None:
    class Broken(ActedSession):
        def batches(self):  # type: ignore[no-untyped-def]
            raise RuntimeError("the session broke")
            yield

    stage = Stage()
    stage.app.runs.launch = LaunchRequest(
        cluster(), cluster(), Job(), make_plan, Broken, at_once=True
    )
    with pytest.raises(RuntimeError, match="the session broke"):
        await _watch(stage)


async def _watch(stage: Stage) -> None:
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.ended(pilot)


@pytest.mark.parametrize(("keep", "starts"), [(True, False), (True, True), (False, False)])
async def test_what_breaks_in_the_dashboard_leaves_a_run_that_is_kept(
    keep: bool, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose ranks are being started, which cannot be left before."""
    stage = Stage()
    launch = stage.app.runs.launch
    stage.app.runs.launch = replace(launch, policy=Policy(keep=keep))
    asked_for: list[str] = []

    def ask(what: str, *_: object, **__: object) -> None:
        asked_for.append(what)
        if starts:
            threading.Timer(0.05, stage.session.close).start()
        else:
            stage.session.close()

    def breaks() -> None:
        raise RuntimeError("the screen broke")

    async def watch() -> None:
        async with stage.app.run_test(size=(80, 24)) as pilot:
            await stage.train(pilot)
            monkeypatch.setattr(stage.screen, "tick", breaks)
            stage.app.call_later(stage.app.tick)
            await until(pilot, lambda: not stage.app.is_running)

    with pytest.raises(RuntimeError, match="the screen broke"):
        await watch()
    monkeypatch.setattr(stage.session, "detach", partial(ask, "detach"))
    monkeypatch.setattr(stage.session, "stop", partial(ask, "stop"))
    stage.app.finish()
    assert asked_for == (["detach"] if keep else ["stop"])
    assert not stage.app.runs.live


async def test_a_kept_run_that_does_not_start_in_time_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    launch = stage.app.runs.launch
    stage.app.runs.launch = replace(launch, policy=Policy(keep=True))
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: stage.app.runs.live)
        stops: list[str] = []

        def stop(reason: str) -> None:
            stops.append(reason)
            stage.session.close()

        monkeypatch.setattr(stage.session, "detach", lambda: None)
        monkeypatch.setattr(stage.session, "stop", stop)
        stage.app.runs.finish(stop=False, abandon=False, within=0.05)
        assert stops == ["the dashboard is gone"]
        await stage.ended(pilot)


async def test_a_tiny_terminal_says_so_and_recovers() -> None:
    stage = Stage()
    async with stage.shown(size=(30, 8)) as pilot:
        await until(pilot, lambda: isinstance(stage.app.screen, TooSmall))
        assert "terminal too small" in stage.text()
        await stage.app.run_action("quit")
        await pilot.resize_terminal(80, 24)
        assert isinstance(await asked(pilot), QuitDialog)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        await stage.train(pilot)
        await pilot.resize_terminal(40, 10)
        await until(pilot, lambda: not stage.screen.query_one(LogPanel).display)
        assert stage.screen.query_one(RanksPanel).region.height > 2


async def test_another_theme_is_also_that_of_the_legends() -> None:
    stage = Stage()
    async with stage.shown(size=(120, 40)) as pilot:
        stage.app.theme = "ansi-dark"
        await stage.train(pilot)
        await pilot.press("3", "b")
        for theme, colours in (
            ("textual-light", LIGHT.series),
            ("nord", DARK.series),
            ("ansi-dark", DARK.series),
        ):
            stage.app.theme = theme
            await until(pilot, lambda colours=colours: colours[0] in _legend(stage))
            await pilot.pause()
            assert "● training" in stage.text()


def _legend(stage: Stage) -> str:
    """The first chart's, with its colours."""
    title = stage.screen.query(Charts).first()._border_title
    assert title is not None
    return title.markup


async def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stage = Stage()
    async with stage.training(size=(120, 40)):
        assert "● training" in stage.text()


async def test_what_is_hidden_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(Charts, "show", lambda self, run: drawn.append(type(self).__name__))
    monkeypatch.setattr(HostsPanel, "show", lambda self, run: drawn.append("Hosts"))
    stage = Stage()
    async with stage.training():
        drawn.clear()
        stage.app.tick()
        assert drawn == ["Charts"]


async def test_the_quit_dialog_goes_when_the_run_has_ended() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: isinstance(stage.app.screen, QuitDialog))
        stage.session.finish(60, 1)
        await until(pilot, lambda: not isinstance(stage.app.screen, QuitDialog))
        await stage.ended(pilot)
    assert stage.app.exit_code == 0


async def test_on_a_terminal_that_shrinks_no_line_of_the_header_is_blank() -> None:
    """Once, where the terminal was slow, its height was that of its old lines, folded."""
    stage = Stage(hosts=4, slots=1)
    async with stage.training(size=(200, 60)) as pilot:
        header = stage.screen.query_one(RunHeader)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: header.outer_size.width == 80)
        stage.app.tick()
        await until(pilot, lambda: stage.text().splitlines()[3].startswith("─ ³loss"))
        assert header.styles.height is not None
        assert not header.styles.height.is_auto
