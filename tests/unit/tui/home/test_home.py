"""Home: the list of runs, what one does with them, and the runs that are opened from it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import notifications
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets._toast import Toast

from remote.cluster.hosts import Host
from remote.events import Detached, HostPhaseChanged, RemarkMade, Stalled, StartRefused
from remote.host_commands import inventory
from remote.host_commands.listed_runs import HostPart, ListedRun
from remote.host_commands.pruning import Removable
from remote.host_commands.run_on_hosts import HostAnswer
from remote.record import marks
from remote.record.entry import Entry
from remote.record.overview import make_overview
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import RunPhase
from remote.study.folder import RunBegun, RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.progress import StudyProgress
from remote.study.study_file import parse_study
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.commands import Done
from tests.kit.commands import run as run
from tests.kit.dashboard import asked
from tests.kit.histories import START, plan, stepped
from tests.kit.histories import History as Told
from tests.kit.looks import screen_text
from tests.kit.recorded import record, recorded
from training.job import Job
from training.wire.events import SESSION
from training.wire.host_events import Exited
from training.wire.host_replies import RunFolder
from tui.app import app
from tui.app.app import RankboardApp
from tui.charts.chart import Chart
from tui.charts.panel import Charts
from tui.commands.runs import runs
from tui.compare.screen import CompareScreen
from tui.home import screen as home_screen
from tui.home.history import Answered, FolderWatch, History, Listed
from tui.home.list_text import count_listed
from tui.home.preview import RunPreview
from tui.home.run_list import ORDERS, RunItem, select_items
from tui.home.run_table import (
    COLUMNS,
    IMPORTANCE,
    describe_state,
    draw_curve,
    fit_table,
    make_rows,
)
from tui.home.screen import HomeScreen
from tui.home.verdict_text import describe_needs, judge_item, list_next_keys, sort_by_urgency
from tui.kit.messages import CompareRuns, OpenRun
from tui.kit.open_runs import LaunchRequest
from tui.kit.replay import Replay
from tui.kit.run_session import RunSession
from tui.kit.widgets.table import TableCell, choose_columns
from tui.kit.widgets.verdict_strip import Severity, draw_verdict
from tui.launch.screen import LaunchScreen
from tui.run.screen import RunScreen
from tui.study.study_screen import StudyScreen

SIZES = [(40, 10), (80, 24), (120, 40), (200, 60)]


class Home:
    """A dashboard that begins with the list of the runs of a folder."""

    def __init__(self, runs_dir: Path) -> None:
        self.sessions: list[ActedSession] = []
        lab = cluster(1, 2)
        history = History(runs_dir)
        launch = LaunchRequest(
            lab, lab, Job(), make_plan, self._begin, home=True, runs_dir=runs_dir
        )
        self.app = RankboardApp(launch, history)

    def _begin(self, of: Any) -> ActedSession:
        self.sessions.append(ActedSession(replace(of, run=f"started-{len(self.sessions)}")))
        return self.sessions[-1]

    def text(self) -> str:
        """What is on the screen."""
        return screen_text(self.app)

    async def shows(self, pilot: Pilot[None], *words: str) -> None:
        await until(pilot, lambda: all(word in self.text() for word in words))

    async def is_at(self, pilot: Pilot[None], kind: type) -> Any:
        await until(pilot, lambda: isinstance(self.app.screen, kind))
        return self.app.screen


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs: one finished, one failed, and one of which nobody knows the end."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs"
    for number, (name, sync) in enumerate((("a-1", "ddp"), ("b-2", "ring"), ("c-3", "ring"))):
        of = replace(plan(2), run=name, work=Job(sync=sync))
        told = Told(of).training(20 + number, 40)
        if name == "a-1":
            told.done(0, 1)
        if name != "c-3":
            told.closed()
        recorded(folder, told)
    return folder


async def test_it_lists_all_runs_with_their_figures(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1", "b-2", "c-3", "✓ finished", "ring", "3 runs, 0 live")
        assert "runs in ./runs" in home.text()


async def test_without_runs_it_says_what_to_do(tmp_path: Path) -> None:
    home = Home(tmp_path / "none")
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "Press n to set up the first one", "rankboard --local 4")
        await until(pilot, lambda: not {"Star", "Sort", "Compare"} & set(home.text().split()))
        assert "n New run" in home.text()
        # Escape ends the text that may follow `t` and `a`, which ask for one elsewhere.
        for key in ("enter", "s", "t", "a", "R", "d", "space", "escape"):
            await pilot.press(key)
        await pilot.press("n")
        await home.is_at(pilot, LaunchScreen)
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)


async def test_a_filter_is_that_of_rankboard_runs(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("slash", *"sync=rin")
        await home.shows(pilot, "0 of 3 runs", "No run matches the filter")
        await pilot.press("g")
        await home.shows(pilot, "2 of 3 runs", "b-2", "c-3")
        assert "a-1" not in home.text()
        await pilot.press("enter", "down", "escape")
        await home.shows(pilot, "3 runs, 0 live", "a-1")


async def test_a_filter_that_is_wrong_is_told(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("slash", *"lss<1", "enter")
        await home.shows(pilot, "runs have no 'lss'", "did you mean 'loss'")


async def test_stars_notes_and_names_are_kept_with_the_run(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "c-3")
        await pilot.press("asterisk")
        await until(pilot, lambda: marks.is_starred(runs_dir / "c-3"))
        await pilot.press("p")
        await until(pilot, lambda: marks.find_pinned(runs_dir) == runs_dir / "c-3")
        await pilot.press("p")
        await until(pilot, lambda: marks.find_pinned(runs_dir) is None)
        await pilot.press("N", *"best one", "enter")
        await home.shows(pilot, "best one: c-3")
        assert marks.name(runs_dir / "c-3") == "best one"
        await pilot.press("m", *"see it", "enter")
        await home.shows(pilot, "note: see it")
        await pilot.press("N", *" last/", "enter")
        await home.shows(pilot, "give a name in one line")
        await pilot.press("asterisk")
        await until(pilot, lambda: not marks.is_starred(runs_dir / "c-3"))


async def test_an_ended_run_is_replayed_and_left_with_escape(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "b-2")
        await pilot.press("down", "enter")
        screen = await home.is_at(pilot, RunScreen)
        assert isinstance(screen.session, Replay)
        await home.shows(pilot, "space replays")
        await pilot.press("home")
        await until(pilot, lambda: screen.session.state.phase is RunPhase.STARTING)
        await pilot.press("<", "<", "space")
        await home.shows(pilot, "▶ 0.25x", "space pause")
        await pilot.press(*[">"] * 12)
        await until(pilot, lambda: screen.session.state.phase is RunPhase.ENDED)
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("enter")
        assert await home.is_at(pilot, RunScreen) is screen
        await pilot.press("q")
    assert home.app.exit_code == 0


async def test_a_run_whose_launcher_leaves_it_says_so_and_is_not_replayed_by_itself(
    runs_dir: Path,
) -> None:
    of = replace(plan(2), run="d-4")
    into, state, told = Recorder(runs_dir, of), RunState(of), Told(of).training(20, 40)
    # However slow this machine is, a replay of ten minutes at a quarter of the speed still plays.
    told.say(0, stepped(0, 21), after=600.0)
    record(into, told, state)
    home = Home(runs_dir)
    async with home.app.run_test(size=(100, 30), notifications=True) as pilot:
        await home.shows(pilot, "d-4")
        await pilot.press("enter")
        screen = await home.is_at(pilot, RunScreen)
        await home.shows(pilot, "watching beside its launcher", "● live")
        told.records.clear()
        record(into, told.session(Detached(False)), state)
        into.release()
        await home.shows(pilot, "its launcher has left the run", "rankboard attach d-4 returns")
        await pilot.press("space")
        await home.shows(pilot, "nothing more is recorded", "‖ 1x")
        await pilot.press("home", "<", "<", "space")
        await home.shows(pilot, "▶ REPLAY")
        assert "has left the run" not in home.text()
        await pilot.press("?")
        await until(pilot, lambda: home.app.screen is not screen)
        assert screen.session.is_playing, "below a dialog it plays on"
        await pilot.press("escape", "escape")
        await home.is_at(pilot, HomeScreen)
        await until(pilot, lambda: not screen.session.is_playing)
        await pilot.press("enter")
        assert await home.is_at(pilot, RunScreen) is screen
        await home.shows(pilot, "paused")


async def test_escape_leaves_one_layer_at_a_time(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "b-2")
        home.app.post_message(OpenRun("b-2"))
        screen = await home.is_at(pilot, RunScreen)
        await until(pilot, lambda: any(one.x_axis for one in screen.query(Chart)))
        chart = next(one for one in screen.query(Charts) if one.display)
        key = str(chart.number)
        await pilot.press(key, "up")
        await until(pilot, lambda: not chart.view.is_whole)
        await pilot.press("left")
        await until(pilot, lambda: chart.view.cursor is not None)
        await pilot.press("1", "escape")
        await until(pilot, lambda: chart.view.cursor is None)
        assert not chart.view.is_whole
        await pilot.press("escape")
        await until(pilot, lambda: chart.view.is_whole)
        await pilot.press(key, "z")
        await until(pilot, lambda: screen.maximized is chart)
        await pilot.press("escape")
        await until(pilot, lambda: screen.maximized is None)
        assert home.app.screen is screen
        await pilot.press("ctrl+pagedown")
        await home.shows(pilot, "no other run is open")
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("q")


async def test_a_form_that_was_changed_is_left_after_a_question(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24)) as pilot:
        await home.shows(pilot, "b-2")
        await pilot.press("n")
        await home.is_at(pilot, LaunchScreen)
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("n")
        form = await home.is_at(pilot, LaunchScreen)
        form._table.set_text("lr", "0.5")
        await pilot.press("escape")
        dialog = await asked(pilot)
        assert "1 changed setting would be lost" in dialog.question
        await pilot.press("enter")
        assert await home.is_at(pilot, LaunchScreen) is form
        assert form.draft.get_text("lr") == "0.5"
        await pilot.press("escape")
        await asked(pilot)
        await pilot.press("right", "enter")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("q")


async def test_a_run_is_opened_once_however_often_one_asks(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24)) as pilot:
        await home.shows(pilot, "b-2")
        for _ in range(3):
            home.app.post_message(OpenRun("b-2"))
        await home.is_at(pilot, RunScreen)
        await until(pilot, lambda: not home.app._opening)
        assert len(home.app.runs.sessions) == 1
        await pilot.press("q")


async def test_replays_that_are_too_many_are_closed(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_REPLAYS", 1)
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24)) as pilot:
        await home.shows(pilot, "a-1")
        seen = []
        for name in ("a-1", "b-2", "a-1"):
            home.app.post_message(OpenRun(name))
            screen = await home.is_at(pilot, RunScreen)
            assert screen.session.plan.run == name
            seen.append(screen)
            await pilot.press("escape")
            await home.is_at(pilot, HomeScreen)
        assert home.app.runs.sessions == [seen[2].session]
        await until(pilot, lambda: not any(one.is_running for one in seen[:2]))
        await until(pilot, lambda: all(one.session._tape._reader._file.closed for one in seen[:2]))
        await pilot.press("q")


@pytest.mark.parametrize("elsewhere", ["form", "filter"])
async def test_a_run_that_opens_while_one_types_does_not_take_the_screen(
    elsewhere: str, runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, goes_on, real = Home(runs_dir), threading.Event(), History.open

    def slow(self: History, run: str) -> RunSession:
        goes_on.wait()
        return real(self, run)

    monkeypatch.setattr(History, "open", slow)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        home.app.post_message(OpenRun("a-1"))
        await home.shows(pilot, "opening a-1")
        await pilot.press("n" if elsewhere == "form" else "slash")
        kind = LaunchScreen if elsewhere == "form" else HomeScreen
        screen = await home.is_at(pilot, kind)
        goes_on.set()
        await home.shows(pilot, "a-1 is open: ")
        assert home.app.screen is screen
        assert home.app.runs.session is None
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        home.app.post_message(OpenRun("a-1"))
        shown = await home.is_at(pilot, RunScreen)
        assert home.app.runs.sessions == [shown.session], "it is not opened again"


async def test_several_runs_are_open_at_once(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("n")
        await home.is_at(pilot, LaunchScreen)
        await pilot.press("f5")
        live = await home.is_at(pilot, RunScreen)
        home.sessions[0].start()
        await pilot.press("H")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("end", "enter")
        other = await home.is_at(pilot, RunScreen)
        assert isinstance(other.session, Replay)
        await pilot.press("ctrl+pagedown")
        await until(pilot, lambda: home.app.screen is live)
        await pilot.press("ctrl+pageup")
        await until(pilot, lambda: home.app.screen is other)
        assert home.app.runs.live
        await pilot.press("q")
        dialog = await asked(pilot)
        assert "still live" in dialog.question
        await pilot.press("escape")
        home.sessions[0].close()
        await until(pilot, lambda: not home.app.runs.live)
        await pilot.press("q")


async def test_what_is_kept_with_a_run_is_that_of_rankboard_runs_and_survives(
    runs_dir: Path, run: Callable[..., Done]
) -> None:
    def listed() -> dict[str, Any]:
        (found,) = map(json.loads, run(runs, words=["star"], json=True).stdout.splitlines())
        return {key: found[key] for key in ("run", "star", "note", "label")}

    home = Home(runs_dir)
    async with home.app.run_test(size=(200, 40), notifications=True) as pilot:
        await home.shows(pilot, "c-3")
        await pilot.press("asterisk", "m", *"mine", "enter")
        await home.shows(pilot, "note: mine")
        await pilot.press("N", *"first", "enter")
        await home.shows(pilot, "first: c-3")
        await pilot.press("q")
    assert listed() == {"run": "c-3", "star": True, "note": "mine", "label": "first"}
    recorder = Recorder(runs_dir, replace(plan(2), run="c-3"), continues=True)  # somebody attaches
    recorder.close(Told(plan(2)).training(1, 1).done(0, 1).closed())
    run(runs, note=("first", "ours"))
    run(runs, name=("c-3", "second"))
    home = Home(runs_dir)
    async with home.app.run_test(size=(200, 40), notifications=True) as pilot:
        await home.shows(pilot, "second: c-3", "note: ours", "*")
        await pilot.press("q")
    assert listed() == {"run": "c-3", "star": True, "note": "ours", "label": "second"}


async def test_a_run_is_deleted_only_after_a_question(runs_dir: Path) -> None:
    marks.star(runs_dir / "b-2", True)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("down", "d")
        await home.shows(pilot, "b-2 is kept: it has a star")
        await pilot.press("down", "d")
        assert "Delete a-1" in (await asked(pilot)).question
        await pilot.press("q", "escape")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("d")
        await asked(pilot)
        await pilot.press("right", "enter")
        await until(pilot, lambda: not (runs_dir / "a-1").exists())
        await home.shows(pilot, "2 runs, 0 live")
    assert (runs_dir / "b-2").exists()


async def test_the_mark_of_a_deleted_run_goes_with_it(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("space", "space", "space")
        shutil.rmtree(runs_dir / "b-2")
        await pilot.press("r")
        await home.shows(pilot, "2 runs, 0 live")
        await pilot.press("C")
        await home.is_at(pilot, CompareScreen)
        await home.shows(pilot, "A a-1", "B c-3", "is as fast as")
        assert "holds no run" not in home.text()


async def test_a_compared_run_is_opened_from_the_comparison(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40)) as pilot:
        await home.shows(pilot, "a-1")
        home.app.post_message(CompareRuns((runs_dir / "b-2", runs_dir / "a-1")))
        await home.shows(pilot, "B a-1 is as fast as A b-2", "enter open B")
        await pilot.press("enter")
        run = await home.is_at(pilot, RunScreen)
        assert run.session.plan.run == "a-1"
        await pilot.press("escape")
        await home.is_at(pilot, CompareScreen)
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)


async def test_a_compared_run_is_repeated_with_another_seed(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = cluster(1, 2)
    monkeypatch.setattr(
        History, "repeated", lambda _, name, seed: (lab, lab, Job(sync="ring", seed=seed))
    )
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40)) as pilot:
        await home.shows(pilot, "a-1")
        home.app.post_message(CompareRuns((runs_dir / "b-2", runs_dir / "a-1")))
        await home.shows(pilot, "B a-1 is as fast as A b-2")
        await pilot.press("t")
        form = await home.is_at(pilot, LaunchScreen)
        assert form.draft.parse_work() == Job(sync="ring", seed=Job().seed + 1)
        await pilot.press("escape")
        await home.is_at(pilot, CompareScreen)


async def test_a_key_that_comes_twice_opens_a_screen_once(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40)) as pilot:
        await home.shows(pilot, "a-1")
        await pilot.press("space", "space")

        async def twice(key: str, kind: type[Screen[Any]]) -> None:
            for _ in range(2):
                home.app.post_message(Key(key, None))
            await home.is_at(pilot, kind)
            await pilot.pause()
            await pilot.pause()
            assert [type(one) for one in home.app.screen_stack[1:]] == [HomeScreen, kind]
            home.app.screen.dismiss()
            await home.is_at(pilot, HomeScreen)

        await twice("C", CompareScreen)
        await twice("n", LaunchScreen)
        await pilot.press("enter")
        await home.is_at(pilot, RunScreen)
        await pilot.press("H")
        await home.is_at(pilot, HomeScreen)
        await twice("enter", RunScreen)


async def test_all_runs_are_deleted_though_hosts_are_slow(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, remove = threading.Event(), History.remove

    def late(history: History, going: Sequence[Removable]) -> tuple[int, list[str]]:
        goes_on.wait()
        return remove(history, going)

    monkeypatch.setattr(History, "remove", late)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        for _ in range(3):
            await pilot.press("d")
            await asked(pilot)
            await pilot.press("right", "enter", "down")
            await home.is_at(pilot, HomeScreen)
        goes_on.set()
        await home.shows(pilot, "0 runs, 0 live")


async def test_a_run_without_a_checkpoint_cannot_be_resumed(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "b-2")
        await pilot.press("down", "R")
        await home.shows(pilot, "hosts.toml: no such file")
        await home.is_at(pilot, HomeScreen)


async def test_the_form_takes_the_settings_of_the_run_that_was_left(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, lab = Home(runs_dir), cluster(1, 2)
    resumed = (lab, lab, Job(sync="ring", resume="b-2"))
    monkeypatch.setattr(History, "resumed", lambda *_: resumed)
    async with home.app.run_test(size=(120, 40)) as pilot:
        await home.shows(pilot, "b-2")
        await pilot.press("R")
        form = await home.is_at(pilot, LaunchScreen)
        assert form.draft.get_text("resume") == "b-2"
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        await pilot.press("n")
        form = await home.is_at(pilot, LaunchScreen)
        assert form.draft.parse_work() == Job()
        await pilot.press("escape")
        home.app.post_message(OpenRun("b-2"))
        await home.is_at(pilot, RunScreen)
        await pilot.press("n")
        form = await home.is_at(pilot, LaunchScreen)
        assert form.draft.parse_work() == Job(sync="ring")


async def test_what_hosts_do_not_answer_is_told_beside_the_list(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs_dir.parent / "hosts.toml").write_text('[[host]]\naddress = "10.0.0.1"\n')
    host = Host("node1", "10.0.0.1")
    monkeypatch.setattr(
        inventory,
        "run_on_hosts",
        lambda *_: [HostAnswer(host, (), error="node1: no route to host")],
    )
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "node1: no route to host", "a-1")


@pytest.mark.parametrize("hosts", [2, 4])
async def test_hosts_that_do_not_answer_have_lines_of_their_own(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch, hosts: int
) -> None:
    (runs_dir.parent / "hosts.toml").write_text('[[host]]\naddress = "10.0.0.1"\n')
    why = "10.10.1.1:22 hung up before it said what it is (Error reading SSH protocol banner)"
    answers = [
        HostAnswer(Host(name, "10.0.0.1"), (), error=f"{name}: {why}\nwhich is long")
        for name in (f"node{number}" for number in range(1, hosts + 1))
    ]
    monkeypatch.setattr(inventory, "run_on_hosts", lambda *_: answers)
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "node1: 10.10.1.1:22 hung up", "a-1")
        lines = [line.strip() for line in home.text().splitlines()]
        begin = next(n for n, line in enumerate(lines) if line.startswith("node1: 10"))
        assert lines[begin].endswith("…"), "one line each"
        if hosts == 2:
            assert lines[begin + 1].startswith("node2: 10.10.1.1:22 hung up")
        else:
            told = "4 hosts do not answer: node1, node2, node3, node4"
            assert lines[begin - 1] == told


@pytest.mark.parametrize("size", SIZES)
async def test_it_fits_every_size(size: tuple[int, int], runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=size, notifications=True) as pilot:
        await home.shows(pilot, "c-3")
        assert all(len(line) <= size[0] for line in home.text().splitlines())


KEYS = (
    *("enter", "escape", "n", "slash", "o", "s", "t", "a", "R", "d", "r", "space", "C", "H", "tab"),
    *("up", "down", "home", "end", "less_than_sign", "greater_than_sign", "left", "question_mark"),
)


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_keys_break_it(seed: int, runs_dir: Path) -> None:
    (runs_dir / "c-3" / "summary.json").write_text('{"verdict": "failed"}')  # nobody is asked
    home, chance = Home(runs_dir), random.Random(seed)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        for key in chance.choices(KEYS, k=40):
            await pilot.press(key)
            screen_text(home.app)
        home.app.tick()


async def test_a_study_shows_its_cells_and_their_runs(
    runs_dir: Path, study_folder: Callable[[], StudyFolder]
) -> None:
    folder = study_folder()
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, folder.name, "study")
        await pilot.press("end", "enter")
        await home.shows(pilot, "of runs", "runs of ddp")
        await pilot.press("enter")
        await home.shows(pilot, "a-1", "runs of ddp")
        await pilot.press("enter")
        screen = await home.is_at(pilot, RunScreen)
        assert screen.session.plan.run == "a-1"


async def test_a_study_is_one_row_that_opens(
    runs_dir: Path, study_folder: Callable[[], StudyFolder]
) -> None:
    study_folder()
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "▸", "two-ways", "study, 2 cells", "1/2", "1 study of 1 run")
        assert re.search(r"▸ .*two-ways .* \d+ (s|min|h|d) ago +4(\.0)? s ", home.text()), "its age"
        assert "2 runs, 1 study" in home.text(), "a run of a study counts once"
        assert "a-1" not in home.text(), "its run is folded"
        await pilot.press("end", "right")
        await home.shows(pilot, "▾", "sync=ddp #1", "a-1")
        await pilot.press("down", "left")
        await home.shows(pilot, "▸")
        assert "a-1" not in home.text()
        await pilot.press("enter")
        await home.is_at(pilot, StudyScreen)
        await pilot.press("escape", "slash", *"verdict=finished")
        await home.shows(pilot, "1 of 3 runs", "a-1")


async def test_a_recorded_study_says_what_failed_and_a_key_tries_it_again(
    runs_dir: Path,
    study_folder: Callable[[], StudyFolder],
    copied: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = study_folder()
    folder.write(RunBegun("sync=ring #1", "b-2"))
    folder.write(RunEnded("sync=ring #1", "b-2", TrialOutcome.FAILED, cause="out of memory"))
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "▸ ✗ failed", "two-ways", "2/2", "1 study of 2 runs")
        await pilot.press("end", "enter")
        await home.shows(pilot, "✗ 1 of 2 runs failed: out of memory (ring)", "R try it again")
        await pilot.press("R")  # a browser has no terminal to give away
        await until(pilot, lambda: copied == ["rankboard study two-ways"])

        def make_run(words: Sequence[str]) -> int:
            assert words[:2] == ["study", "two-ways"]
            folder.write(RunBegun("sync=ring #1", "c-3"))
            folder.write(RunEnded("sync=ring #1", "c-3", TrialOutcome.COUNTED, 0.1, seconds=4.0))
            return 0

        monkeypatch.setattr(app, "run_command", make_run)
        monkeypatch.setattr(RankboardApp, "suspend", lambda _: nullcontext())
        await pilot.press("R")
        await home.shows(pilot, "Two ways", "✓ finished", "2 of 2 runs")
        assert "R try" not in home.text()
        await pilot.press("escape")
        await home.is_at(pilot, HomeScreen)
        await home.shows(pilot, "▌ ✓ as measured, ddp is fastest")
        assert home.text().count("ddp is fastest") == 1


async def test_a_recorded_study_that_says_little_is_run_again_by_a_key(
    runs_dir: Path, copied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StudyFolder.of(runs_dir, "guesses")
    folder.keep(StudyCall(STUDY_OF_LOSSES, {}, {"local": 2}, quick=False, num_hosts=2))
    for name in ("ring", "ddp"):
        folder.write(RunEnded(f"sync={name} #1", "b-2", TrialOutcome.COUNTED, 2.3, seconds=4.0))
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "▸ ▲ too short", "guesses")
        await pilot.press("end", "enter")
        await home.shows(pilot, "all runs still guess", "▶ n run it again with 20 epochs")
        await pilot.press("n")
        await home.shows(pilot, "run the study again with more")
        await pilot.press(*"70", "enter")  # a browser has no terminal to give away
        await until(pilot, lambda: bool(copied))
        assert copied == ["rankboard study guesses --new --epochs 70"]
        begun: list[Sequence[str]] = []
        monkeypatch.setattr(app, "run_command", lambda words: begun.append(words) or 0)
        monkeypatch.setattr(RankboardApp, "suspend", lambda _: nullcontext())
        await pilot.press("n")
        await home.shows(pilot, "run the study again with more")
        await pilot.press(*"80", "enter")
        await until(pilot, lambda: bool(begun))
        assert begun[0][:5] == ["study", "guesses", "--new", "--epochs", "80"]
        await home.is_at(pilot, StudyScreen)


async def test_the_title_counts_the_runs_that_need_a_person(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "3 runs, 0 live")
        assert "need" not in home.text()
        overview = {"verdict": "finished", "diverged": True, "step": 33, "started": time.time()}
        (runs_dir / "c-3" / "overview.json").write_text(json.dumps(overview))
        await pilot.press("r")
        await home.shows(pilot, "0 live, 1 to look at", "▲ diverged")
        overview |= {"verdict": "failed", "diverged": False}
        (runs_dir / "b-2" / "overview.json").write_text(json.dumps(overview))
        await pilot.press("r")
        await home.shows(pilot, "0 live, 2 to look at", "✗ failed")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_preview_shows_the_chosen_run_where_there_is_room(
    size: tuple[int, int], runs_dir: Path
) -> None:
    failed = Told(replace(plan(2), run="d-4", work=Job(sync="ddp", lr=0.5))).training(30, 40)
    failed.rank(0, Exited(0, -9, "SIGKILL"))
    failed.closed()
    recorded(runs_dir, failed)
    overview = json.loads((runs_dir / "d-4" / "overview.json").read_text())
    (runs_dir / "d-4" / "overview.json").write_text(json.dumps(overview | {"checkpoint_step": 20}))
    home = Home(runs_dir)
    async with home.app.run_test(size=size, notifications=True) as pilot:
        await home.shows(pilot, " d-4 ─", "✗ failed", "killed by SIGKILL")
        await home.shows(pilot, "R resume from checkpoint 20")
        await home.shows(pilot, "unlike a-1:", "lr 0.5, was 0.1")
        await until(pilot, lambda: any(one.x_axis for one in home.app.screen.query(Chart)))
        marks.pin(runs_dir / "c-3", True)
        await pilot.press("r")
        await home.shows(pilot, "unlike c-3:")
        await pilot.press("end")
        await home.shows(pilot, " a-1 ─", "✓ finished", " 20 of ")
        assert "SIGKILL" not in home.text()


async def test_ages_grow_though_nothing_changes(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(home_screen, "AGES_EVERY", 0.0)
    now = time.time
    overview = {"verdict": "finished", "step": 33, "started": now() - 300.0}
    (runs_dir / "c-3" / "overview.json").write_text(json.dumps(overview))
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, " 5 min ")
        monkeypatch.setattr(time, "time", lambda: now() + 3 * 3600.0)
        await home.shows(pilot, " 3 h ")


async def test_an_idle_list_reads_its_folder_only_after_a_change(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    os.utime(runs_dir, (0.0, 0.0))
    reads = []
    read = History.recorded
    monkeypatch.setattr(History, "recorded", lambda self: reads.append(1) or read(self))
    looks = []
    look = FolderWatch.look
    monkeypatch.setattr(
        FolderWatch, "look", lambda self, **state: looks.append(1) or look(self, **state)
    )
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "3 runs, 0 live")
        # The index that the first look writes changes the folder.
        os.utime(runs_dir, (0.0, 0.0))
        await until(pilot, lambda: len(looks) > 3)
        before = len(reads)
        await until(pilot, lambda: len(looks) > 8)
        assert len(reads) == before
        recorded(runs_dir, Told(replace(plan(2), run="d-4")).training(9, 40).ended())
        await home.shows(pilot, "4 runs, 0 live", "d-4")


async def test_the_lines_that_the_list_does_not_need_are_those_of_the_preview(
    runs_dir: Path,
) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "─ c-3 ─")
        preview = home.app.screen.query_one(RunPreview)
        assert preview.size.height > 24 // 2
        for number in range(40):
            recorded(runs_dir, Told(replace(plan(2), run=f"d-{number}")).training(9, 40).ended())
        await pilot.press("r")
        await home.shows(pilot, "43 runs")
        await until(pilot, lambda: preview.size.height < 24 // 2)
        assert preview.size.height >= 5


def listed_names(home: Home) -> list[str]:
    """The names in the list, from the top."""
    return re.findall(r"^[ !]+\S (?:failed|left) +(\S+)", home.text(), re.MULTILINE)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_needs_a_person_stands_on_top_with_the_keys_that_help(
    size: tuple[int, int], runs_dir: Path
) -> None:
    overview = {"verdict": "failed", "cause": "rank 1: killed", "started": time.time(), "step": 25}
    for name in ("a-1", "b-2"):
        marks.write_name(runs_dir / name, f"my-{name}")
        (runs_dir / name / "overview.json").write_text(
            json.dumps(overview | {"checkpoint_step": 20})
        )
    home = Home(runs_dir)
    async with home.app.run_test(size=size, notifications=True) as pilot:
        await home.shows(pilot, '✗ Look first at "my-b-2": rank 1: killed', "enter open")
        await home.shows(pilot, '✗ then at "my-a-1": rank 1: killed', '! go to "my-a-1"')
        await home.shows(pilot, "R resume from checkpoint 20 (5 steps lost)", "─ my-b-2: b-2 ─")
        assert home.text().count("rank 1: killed") == 2, "each said once"
        assert len(re.findall(r"^ *! +✗ failed", home.text(), re.MULTILINE)) == 2
        await pilot.press("exclamation_mark")
        await home.shows(pilot, '▌ ✗ "my-a-1": rank 1: killed', "─ my-a-1: a-1 ─")
        await home.shows(pilot, '✗ also "my-b-2": rank 1: killed')
        assert listed_names(home) == ["my-b-2", "my-a-1", "c-3"]
        await pilot.press("end")
        await home.shows(pilot, "─ c-3 ─", '✗ Look first at "my-b-2": rank 1', '! go to "my-b-2"')
        assert "R resume" not in home.text().splitlines()[3], "it would resume another run"
        await pilot.press("exclamation_mark", "enter")
        await home.is_at(pilot, RunScreen)
        await pilot.press("escape")
        await home.shows(pilot, "1 to look at", '▌ ✗ "my-a-1": rank 1', '! go to "my-a-1"')
        await pilot.press("exclamation_mark", "enter")
        await home.is_at(pilot, RunScreen)
        await pilot.press("escape", "exclamation_mark")
        await home.shows(pilot, "no run to look at", "─ my-a-1: a-1 ─")
        assert listed_names(home) == ["c-3", "my-b-2", "my-a-1"], "the newest first"
        assert "! go to" not in home.text()
        assert not re.search(r"! +✗ failed", home.text()), "they were looked at"


async def test_the_preview_of_a_study_has_its_answer(
    runs_dir: Path, study_folder: Callable[[], StudyFolder]
) -> None:
    study_folder()
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "two-ways")
        await pilot.press("end")
        await home.shows(pilot, "─ two-ways ─", "not complete: 1 of 2 cells: sync=ring")
        await home.shows(pilot, "▲ stopped: 1 of 2 runs left to be made", "right list its runs")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is copied to the clipboard."""
    texts: list[str] = []
    monkeypatch.setattr(RankboardApp, "copy_to_clipboard", lambda _, text: texts.append(text))
    return texts


async def test_y_copies_the_command_of_a_run_from_the_list_and_from_the_run(
    runs_dir: Path, copied: list[str]
) -> None:
    local = Host("local", "127.0.0.1", slots=2, transport="local")
    of = replace(plan(1), run="d-4", hosts=(local,), work=Job(sync="ring", lr=0.5))
    recorded(runs_dir, Told(of).training(20, 40).ended())
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "─ d-4 ─")
        await pilot.press("y")
        await home.shows(pilot, "copied: rankboard --local 2 --sync ring --lr 0.5")
        await pilot.press("enter")
        await home.is_at(pilot, RunScreen)
        await pilot.press("y")
        await until(pilot, lambda: len(copied) == 2)
    assert copied == ["rankboard --local 2 --sync ring --lr 0.5"] * 2


async def test_what_is_typed_after_a_refused_prompt_runs_no_commands(
    runs_dir: Path, study_folder: Callable[[], StudyFolder]
) -> None:
    study_folder()
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "two-ways")
        await pilot.press("end")
        for key in ("m", "N"):
            await pilot.press(key)
            await home.shows(pilot, "a study has no ")
            await pilot.press(*"eeqn need", "enter")
            await pilot.pause()
            assert isinstance(home.app.screen, HomeScreen)
    assert not list(runs_dir.parent.rglob("*.svg"))


@pytest.mark.parametrize("key", ["asterisk", "R", "d", "space", "y"])
async def test_a_key_that_does_nothing_on_a_study_says_so(
    key: str, runs_dir: Path, study_folder: Callable[[], StudyFolder]
) -> None:
    study_folder()
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "two-ways")
        await pilot.press("end", key)
        await home.shows(pilot, "a study ")


async def test_messages_replace_each_other_in_one_line(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        for count in range(1, 4):
            await pilot.press("e")
            await until(pilot, lambda count=count: len(list(runs_dir.glob("*.svg"))) == count)
            await home.shows(pilot, "screenshot: runs/")
        lines = home.text().splitlines()
        assert [number for number, line in enumerate(lines) if "screenshot:" in line] == [21]
        assert "a-1" in home.text()
        assert not list(runs_dir.glob("*/*.svg"))


async def test_a_message_whose_time_is_over_before_it_is_drawn_has_a_timer_that_ends(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "a-1")
        home.app.notify("in time", timeout=60.0)
        await home.shows(pilot, "in time")
        # What Textual asks as it makes the timer of a message, on a machine that is too busy.
        message = home.app.screen.query_one(Toast)._notification
        monkeypatch.setattr(notifications, "time", lambda: time.time() + 100.0)
        assert message.has_expired
        assert message.time_left > 0.0, "with less, the loop of the timer never ends"


async def test_the_column_by_which_the_list_is_sorted_has_a_sign(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "started ▴")
        await pilot.press("o")
        await home.shows(pilot, "loss ▴")
        await pilot.press("o")
        await home.shows(pilot, "test acc ▾")


def test_each_order_has_a_column() -> None:
    assert {order.title for order in ORDERS.values()} <= {column.title for column in COLUMNS}


def test_a_row_says_how_old_a_run_is_and_what_it_trains() -> None:
    job = {"sync": "ring", "model": "lenet5", "dataset": "digits"}
    run = Entry("a", verdict="running", job=job, started=100.0, step=30, steps=120)
    script = Entry("b", verdict="finished", script="/home/me/work/train.py --lr 1", started=0.0)
    rows = make_rows([RunItem("a", run), RunItem("b", script)], {}, {}, (), 400.0)
    titles = [column.title for column in COLUMNS]
    shown = ("state", "job", "started", "progress")
    texts = [[row[titles.index(title)].text for title in shown] for row in rows]
    assert texts[0] == [
        "● running",
        "ring lenet5 digits",
        " 5 min ago",
        "━──── 25%".replace(" ", "  "),
    ]
    assert texts[1] == ["✓ finished", "work/train.py --lr 1", "-", "-"]


STUDY_OF_LOSSES = """
metric = "loss"
repetitions = 1
[job]
epochs = 2
[axes]
sync = ["ring", "ddp"]
"""
STUDY = """
title = "Two ways"
repetitions = 1
[job]
steps = 20
[axes]
sync = ["ddp", "ring"]
"""


@pytest.fixture
def study_folder(runs_dir: Path) -> Callable[[], StudyFolder]:
    def study_folder() -> StudyFolder:
        folder = StudyFolder.of(runs_dir, "two-ways")
        with folder.held():
            folder.keep(StudyCall(STUDY, {}, {"local": 2}, quick=False, num_hosts=2))
            from remote.study.start_study import open_study

            trial = StudyProgress(open_study(folder)).study.trials()[0]
            folder.write(RunBegun(trial.key, "a-1"))
            folder.write(RunEnded(trial.key, "a-1", TrialOutcome.COUNTED, 0.1, seconds=4.0))
        return folder

    return study_folder


async def test_a_run_that_another_terminal_starts_appears_by_itself(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "3 runs, 0 live", "r Refresh")
        assert "v All" not in home.text(), "nothing is hidden"
        recorded(runs_dir, Told(replace(plan(2), run="d-4")).training(9, 40).ended())
        await home.shows(pilot, "4 runs, 0 live", "d-4")


class Answers:
    """What hosts answer, one answer after the other, and of which runs they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.live: tuple[ListedRun, ...] = ()
        self.ended: tuple[ListedRun, ...] = ()
        self.asked: list[set[str]] = []
        monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
        monkeypatch.setattr(home_screen, "ASK_EVERY", 0.0)
        monkeypatch.setattr(History, "ask", self._ask)

    def _ask(self, unknown: Collection[str]) -> Answered:
        self.asked.append(set(unknown))
        live = {run.name: run for run in self.live}
        ended = {run.name: run for run in self.ended if run.name in unknown}
        return Answered(live, (), time.time(), ended)


def training_at(name: str, step: int) -> ListedRun:
    """A run that is live on a host."""
    folder = RunFolder(name, 0, "", True, "training", 1.0, 1.0, 1.0, 0, step, 400)
    return ListedRun(name, (HostPart("node1", "~", folder),))


def changed(run: ListedRun, **figures: Any) -> ListedRun:
    """The same run, of which its host says something else."""
    (part,) = run.parts
    return replace(run, parts=(replace(part, folder=replace(part.folder, **figures)),))


async def test_hosts_are_asked_again_by_themselves(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Answers(monkeypatch)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "3 runs, 0 live")
        await until(pilot, lambda: len(hosts.asked) > 2)
        assert hosts.asked[0] == {"c-3"}, "of a-1 and b-2 the end is known"
        assert hosts.asked[-1] == set(), "no host knows c-3: those of its plan are left alone"
        hosts.live = (training_at("elsewhere", 45), training_at("c-3", 33))
        await home.shows(pilot, "2 live", " 11%", " 8%", "at step 33 of 400")
        await until(pilot, lambda: hosts.asked[-1] == {"c-3", "elsewhere"})
        hosts.live = ()
        await home.shows(pilot, "0 live")
        await pilot.press("r")
        await until(pilot, lambda: {"c-3", "elsewhere"} in hosts.asked[-2:])


async def test_what_hosts_say_of_the_end_of_a_run_stays(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = Answers(monkeypatch)
    recorded_here, not_here = training_at("c-3", 33), training_at("elsewhere", 45)
    hosts.live = (recorded_here, changed(not_here, label="race1"))
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "2 live", "race1", " 8%")
        hosts.ended = (
            changed(recorded_here, live=False, phase="lost", step=34),
            changed(not_here, live=False, phase="finished", label="race1"),
        )
        hosts.live = ()
        await home.shows(pilot, "3 runs, 0 live", "lost", " 85%", "race1")
        assert "unknown" not in home.text()
        await until(pilot, lambda: hosts.asked[-1] == set())
        await home.shows(pilot, "lost", "race1")
        await pilot.press("slash", *"verdict=lost", "enter")
        await home.shows(pilot, "1 of 3 runs", "c-3")
        await pilot.press("escape", "r")
        await until(pilot, lambda: {"c-3", "elsewhere"} in hosts.asked[-2:])


async def test_a_run_that_is_stopped_elsewhere_is_not_shown_as_live(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    answer = Answered({"c-3": training_at("c-3", 33)}, (), START + 1e-3)
    monkeypatch.setattr(History, "ask", lambda *_: answer)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, " 8%", "1 live")
        overview = {"verdict": "stopped", "started": START, "elapsed": 5.0, "step": 33}
        (runs_dir / "c-3" / "overview.json").write_text(json.dumps(overview))
        await home.shows(pilot, "0 live", "stopped")


async def test_the_cursor_follows_the_newest_run_until_it_is_moved(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    home = Home(runs_dir)

    def record_run(name: str) -> None:
        recorded(runs_dir, Told(replace(plan(2), run=name)).training(9, 40).ended())

    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "─ c-3 ─")
        record_run("d-4")
        await home.shows(pilot, " d-4 ─")
        await pilot.press("down", "up")
        record_run("e-5")
        await home.shows(pilot, "5 runs", " d-4 ─")
        await pilot.press("enter")
        screen = await home.is_at(pilot, RunScreen)
        assert screen.session.plan.run == "d-4"
        record_run("f-6")
        await pilot.press("escape")
        await home.shows(pilot, "6 runs", " d-4 ─")


async def test_what_is_done_with_a_run_keeps_the_cursor_there(
    runs_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_screen, "LOOK_EVERY", 0.0)
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "─ c-3 ─")
        await pilot.press("asterisk")
        recorded(runs_dir, Told(replace(plan(2), run="d-4")).training(9, 40).ended())
        await home.shows(pilot, "4 runs", "─ c-3 ─")
        await pilot.press("m", *"mine", "enter")
        await until(pilot, lambda: marks.note(runs_dir / "c-3") == "mine")


async def test_runs_that_made_no_step_are_hidden(runs_dir: Path) -> None:
    for name in ("d-4", "e-5"):
        refused = Told(replace(plan(2), run=name)).session(StartRefused(SESSION, "no torch"))
        recorded(runs_dir, refused.ended())
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "3 runs, 0 live", "2 runs that made no step are hidden: v lists")
        await home.shows(pilot, "v All")
        assert "e-5" not in home.text()
        await pilot.press("v")
        await home.shows(pilot, "5 runs, 0 live", "✗ refused", "d-4", "e-5")
        assert "hidden" not in home.text()
        await pilot.press("v", "slash", *"verdict=refused", "enter")
        await home.shows(pilot, "2 of 5 runs", "d-4", "e-5")


# Rows ---------------------------------------------------------------------------------------------


def test_a_run_that_failed_today_is_listed_though_it_made_no_step() -> None:
    day = 86400.0
    fine, failed, refused, stopped = (
        Entry(name, verdict=verdict, started=1000.0, elapsed=1.0, job={}, step=step)
        for name, verdict, step in (
            ("a", "finished", 9),
            ("b", "failed", 0),
            ("c", "refused", 0),
            ("d", "stopped", 0),
        )
    )
    listed = Listed((fine, failed, refused, stopped))
    for now, names in ((1000.0 + day / 2, "cba"), (1002.0 + day, "a")):
        rows = select_items(listed, Answered(), (), "newest first", lists_all=False, now=now)
        assert "".join(row.name for row in rows.items) == names
        assert rows.hidden == 4 - len(names)


@pytest.mark.parametrize(("order", "names"), [("newest first", "csba"), ("longest first", "scba")])
def test_a_study_stands_where_its_newest_run_would(order: str, names: str) -> None:
    """It leads where the list is sorted by what studies do not have."""
    runs = [
        Entry(name, verdict="finished", started=started, elapsed=started)
        for name, started in (("a", 1.0), ("b", 2.0), ("c", 4.0))
    ]
    part = Entry("d", verdict="finished", started=3.0, study="s")
    study = parse_study("s", STUDY)
    listed = Listed((*runs, part), (StudyProgress(study),))
    items = select_items(listed, Answered(), (), order).items
    assert "".join(item.name for item in items) == names


@pytest.mark.parametrize(
    ("losses", "needs_care", "title"),
    [
        (
            (2.24, 2.3),
            True,
            "too short: 2 epochs barely beat guessing (best run 2.24, guessing 2.30)",
        ),
        ((2.31, 2.3), True, "too short: after 2 epochs all runs still guess"),
        ((1.0, 2.3), False, "finished"),
        ((2.3,), False, "stopped: 1 of 2 runs left to be made"),
    ],
)
def test_a_study_whose_runs_still_guess_is_to_be_looked_at(
    losses: Sequence[float], needs_care: bool, title: str
) -> None:
    entries = [
        RunEnded(f"sync={name} #1", f"run-{name}", TrialOutcome.COUNTED, loss, seconds=4.0)
        for name, loss in zip(("ring", "ddp"), losses, strict=False)
    ]
    progress = StudyProgress.of(parse_study("guesses", STUDY_OF_LOSSES), entries)
    item = RunItem("guesses", study=progress, started=100.0)
    assert item.needs_care(200.0) == needs_care
    assert not item.needs_care(100.0 + 2 * 86400)
    assert judge_item(item).title == title


def test_live_runs_come_first_then_studies() -> None:
    ended, live = Entry("a", verdict="finished"), Entry("b", verdict="running")
    rows = select_items(
        Listed((live, ended, replace_name(ended, "z"))), Answered(), (), "newest first"
    )
    assert [row.name for row in rows.items] == ["b", "z", "a"]


@pytest.mark.parametrize(
    ("verdict", "asked", "is_live"),
    [("lost", 105.0, False), ("lost", 120.0, True), ("left", 105.0, True)],
)
def test_a_recorded_end_counts_more_than_an_older_answer(
    verdict: str, asked: float, is_live: bool
) -> None:
    run = Entry("a", verdict=verdict, started=100.0, elapsed=10.0, step=3, job={})
    answered = Answered({"a": training_at("a", 3)}, (), asked)
    assert select_items(Listed((run,)), answered, (), "newest first").items[0].is_live == is_live


def test_the_record_of_a_live_launcher_counts_more_than_an_answer() -> None:
    run = Entry("a", verdict="running", step=40, job={})
    answered = Answered({"a": training_at("a", 3)}, (), 1e12)
    (item,) = select_items(Listed((run,)), answered, (), "newest first").items
    assert item.is_live
    assert item.answer is None


def test_a_run_that_only_hosts_know_has_its_name() -> None:
    live = changed(training_at("a", 3), label="race1")
    over = changed(training_at("b", 3), label="race2", live=False, phase="failed")
    shown = select_items(
        Listed(), Answered({live.name: live}, (), 1.0, {over.name: over}), (), "newest first"
    ).items
    titles = [field.title for field in COLUMNS]
    texts = [
        [row[titles.index(name)].text for name in ("state", "name")]
        for row in make_rows(shown, {}, {}, (), 0.0)
    ]
    assert texts == [["● training", "race1"], ["✗ failed", "race2"]]
    live_item, over_item = shown
    assert judge_item(live_item).title.startswith("● training at step")
    assert judge_item(over_item).title == "failed, as its hosts say"
    keys = [next(list_next_keys(item, 0, lambda name: name)).text for item in shown]
    assert keys == ["watch it", "open"]


def test_a_recorded_end_counts_more_than_that_which_hosts_tell() -> None:
    over = changed(training_at("a", 3), live=False, phase="failed")
    answered = Answered({}, (), 1.0, {over.name: over})
    for verdict, shown in (("left", "failed"), ("stopped", "stopped"), ("running", "running")):
        (item,) = select_items(
            Listed((Entry("a", verdict=verdict, step=2),)), answered, (), "newest first"
        ).items
        assert item.entry
        assert item.entry.verdict == shown


def test_a_loss_of_older_steps_is_not_that_of_the_end_that_hosts_tell() -> None:
    over = changed(training_at("a", 3), live=False, phase="failed")
    answered = Answered({}, (), 1.0, {over.name: over})
    for step, loss in ((2, None), (3, 0.5)):
        recorded_run = Entry("a", verdict="left", step=step, loss=0.5)
        (item,) = select_items(Listed((recorded_run,)), answered, (), "newest first").items
        assert item.entry
        assert (item.entry.step, item.entry.loss) == (3, loss)


def replace_name(entry: Entry, name: str) -> Entry:
    return entry._replace(name=name)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_sorts_runs_of_which_little_is_known(order: str) -> None:
    runs = (
        Entry("a", verdict="finished", job={}, loss=1.0),
        Entry("b", problem="it is not a plan"),
    )
    assert len(select_items(Listed(runs), Answered(), (), order).items) == 2


def test_a_curve_spans_all_levels_on_a_logarithmic_scale() -> None:
    assert draw_curve([100.0, 10.0, 1.0]) == "⠉⠒⠤"
    assert draw_curve([1.0, 10.0, 100.0]) == "⠤⠒⠉"
    assert draw_curve([1.0]) == draw_curve([]) == ""
    assert draw_curve([1.0, 1.0]) == "⠤⠤"
    assert draw_curve([-1.0, 1.0]), "a loss below 0 has no logarithm"


async def test_marked_runs_have_the_letters_of_their_comparison(runs_dir: Path) -> None:
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "c-3")
        await pilot.press("space", "down", "space")  # c-3, the newest, and a-1

        def letter(run: str) -> str:
            line = next(line for line in home.text().splitlines() if f" {run} " in line)
            return line.strip()[0]

        await until(pilot, lambda: (letter("a-1"), letter("c-3")) == ("A", "B"))


@pytest.mark.parametrize("width", [18, 78, 118, 158])
def test_a_number_is_not_cut(width: int) -> None:
    row = tuple(TableCell("188/300 runs" if one.title == "progress" else "") for one in COLUMNS)
    shown, found = fit_table([row], width)
    assert sum(column.width for column in shown) <= width
    steps = [column.width for column in shown if column.title == "progress"]
    assert steps == [len("188/300 runs") + 1]
    assert len(found[0]) == len(shown)


@pytest.mark.parametrize("width", [0, 20, 60, 80, 120, 300])
def test_as_many_columns_are_shown_as_there_is_room_for(width: int) -> None:
    found, _ = fit_table([], width)
    assert sum(one.width for one in found) <= max(width, found[0].width)
    assert fit_table([], 300)[0][-1].title == "note"


def test_each_column_has_its_turn() -> None:
    assert sorted(IMPORTANCE) == sorted(column.title for column in COLUMNS[1:])


def test_a_narrow_list_has_ages_whole_names_and_no_empty_columns() -> None:
    name = "with-a-rather-long-name"
    entry = Entry("a", verdict="failed", job={}, label=name, started=1.0, step=30, steps=120)
    columns, (row,) = fit_table(make_rows([RunItem("a", entry)], {}, {}, (), 301.0), 78)
    cells = {column.title: cell.text.strip() for column, cell in zip(columns, row, strict=True)}
    assert (cells["name"], cells["started"], cells["progress"]) == (name, "5 min ago", "25%")
    assert not {"loss", "test acc", " loss curve", "note"} & cells.keys()
    widths = choose_columns(columns, 78).widths
    assert widths[[column.title for column in columns].index("name")] > len(name)


FLAWED = Entry("flawed", verdict="finished", flaws=(Flaw(FlawKind.OVERFITTED),), started=100.0)
FAILED = Entry("failed", verdict="failed", cause="KeyError", started=100.0)


@pytest.mark.parametrize("kind", FlawKind)
def test_every_flaw_of_today_needs_a_person(kind: FlawKind) -> None:
    item = RunItem("a", FLAWED._replace(flaws=(Flaw(kind),)))
    assert item.needs_care(200.0)
    assert not item.needs_care(200_000.0), "days later"
    assert not RunItem("a", Entry("a", verdict="finished", started=100.0)).needs_care(200.0)


def test_what_needs_a_person_names_each_run_the_most_urgent_first() -> None:
    diverged = Entry("diverged", verdict="finished", diverged=True)
    live = Entry("live", verdict="running", trouble="slow", step=3)
    entries = (FLAWED, diverged, FAILED, live)
    needy = sort_by_urgency([RunItem(entry.name, entry) for entry in entries])
    assert [item.name for item in needy] == ["live", "failed", "flawed", "diverged"]
    title, reasons = describe_needs(needy[0], needy, max_others=1, width=80)
    assert title.startswith('Look first at "live": slow now')
    lines = [str(reason) for reason in reasons]
    assert lines[0] == '✗ then at "failed": KeyError'
    assert lines[1].startswith("and 2 more, marked !")
    _, reasons = describe_needs(needy[0], needy, max_others=2, width=30)
    assert str(reasons[1]).startswith('▲ then at "flawed": overfi')
    assert str(reasons[2]).startswith('▲ then at "diverged": diver')
    assert all(len(str(reason)) <= 30 for reason in reasons)


@pytest.mark.parametrize(
    ("width", "second", "rest"),
    [(80, "KeyError", ", and 2 more, marked !"), (44, "KeyErr", ", and 2 more")],
)
def test_a_long_error_of_the_first_run_has_two_lines_and_the_others_one(
    width: int, second: str, rest: str
) -> None:
    error = "IndexError: " + "Target 12 is out of bounds " * (width // 20)
    entries = [FAILED._replace(name=name, label=name) for name in ("b", "another-run", "d", "e")]
    entries[0] = entries[0]._replace(cause=error)
    needy = [RunItem(entry.name, entry) for entry in entries]
    title, reasons = describe_needs(needy[0], needy, max_others=1, width=width)
    shown = draw_verdict(Severity.BAD, title, reasons, (), width).plain.splitlines()
    assert len(shown) == 3
    assert len(title) > width, "the error goes on in the second line"
    assert second in shown[2]
    assert shown[2].endswith(rest)
    assert all(len(line) <= width for line in shown)
    short_title, reasons = describe_needs(needy[1], needy, max_others=1, width=80)
    assert "KeyError" in short_title
    assert "and 2 more, marked !" in str(reasons[-1]), "a line of its own where the title needs one"


def test_the_error_of_the_second_run_takes_the_line_on_the_others_where_it_needs_it() -> None:
    error = (
        "rank 1: ValueError: batch_size should be a positive integer value, but got batch_size=0"
    )
    entries = [FAILED._replace(name=name, label=name) for name in ("a", "b", "c", "d")]
    entries[1] = entries[1]._replace(cause=error)
    needy = [RunItem(entry.name, entry) for entry in entries]
    _, reasons = describe_needs(needy[0], needy, max_others=1, width=77)
    lines = [str(reason) for reason in reasons]
    assert len(lines) == 2
    assert lines[1].endswith(", and 2 more, marked !")
    assert error in " ".join(lines), "its end says what is wrong"
    assert all(len(line) <= 77 for line in lines)


def test_of_a_run_that_failed_with_a_flaw_both_are_said_of_it() -> None:
    entry = FAILED._replace(flaws=(Flaw(FlawKind.DIVERGED, step=3, after="NaN"),))
    item = RunItem("failed", entry)
    title, reasons = describe_needs(item, [item], max_others=2, width=80)
    assert (title, len(reasons)) == ('"failed": KeyError', 1)
    assert str(reasons[0]).startswith("also diverged at step 3")


TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/home/me/work/train.py", line 7, in load',
    '    return batch["label"]',
    "KeyError: 'label'",
]


@pytest.mark.parametrize(
    ("cause", "shown", "hidden"),
    [
        ({"tail": TRACEBACK}, ("raised at train.py:7, load", "KeyError: 'label'"), "last output"),
        ({"tail": ["no space left", 7]}, ("last output of the rank", "no space left"), "raised at"),
        ({"tail": "no list"}, ("─ b-2 ─",), "last output"),
        (["no", "object"], ("─ b-2 ─",), "last output"),
    ],
)
async def test_the_preview_of_a_failed_run_has_what_the_rank_printed_last(
    runs_dir: Path, cause: object, shown: tuple[str, ...], hidden: str
) -> None:
    (runs_dir / "b-2" / "summary.json").write_text(json.dumps({"cause": cause}))
    home = Home(runs_dir)
    async with home.app.run_test(size=(120, 40), notifications=True) as pilot:
        await home.shows(pilot, "b-2")
        # By a key, as a person: until then the cursor follows the list as it is read.
        await pilot.press("down")
        await home.shows(pilot, *shown)
        assert hidden not in home.text()


async def test_the_error_of_a_failed_run_is_whole_and_comes_first(runs_dir: Path) -> None:
    error = "KeyError: 'no label of the name that was given in the file of the labels: animals'"
    cause = {"tail": [*TRACEBACK[:-1], error]}
    (runs_dir / "b-2" / "summary.json").write_text(json.dumps({"cause": cause}))
    home = Home(runs_dir)
    async with home.app.run_test(size=(80, 24), notifications=True) as pilot:
        await home.shows(pilot, "b-2")
        # By a key, as a person: until then the cursor follows the list as it is read.
        await pilot.press("down")
        await home.shows(pilot, "raised at train.py:7, load")
        preview = home.text().partition("─ b-2 ─")[2]
        words = " ".join(preview.replace("│", " ").split())
        places = [words.find(text) for text in (error[:40], "raised at", "Traceback")]
        assert -1 not in places
        assert places == sorted(places)
        assert "labels: animals'" in words, "the end of the error"
        assert words.count("KeyError") == 1
        assert not home.app.screen.query_one("RunPreview #curve").display, "it has the full width"


@pytest.mark.parametrize(
    ("item", "severity", "title"),
    [
        (
            RunItem("a", Entry("a", verdict="finished", accuracy=0.914)),
            "-good",
            "finished: test acc 91",
        ),
        (
            RunItem("a", Entry("a", verdict="failed", cause="out of memory")),
            "-bad",
            "failed: out of",
        ),
        (RunItem("a", Entry("a", verdict="lost")), "-bad", "lost: a host could not be reached"),
        (RunItem("a", Entry("a", verdict="finished", diverged=True)), "-warn", "diverged"),
        (
            RunItem("a", Entry("a", verdict="stopped", cause="by you")),
            "-neutral",
            "stopped: by you",
        ),
        (RunItem("a", Entry("a", problem="no plan")), "-warn", "unreadable: no plan"),
        (
            RunItem("a", Entry("a", verdict="running", step=3, steps=9)),
            "-neutral",
            "● running at step 3 of 9",
        ),
        (
            RunItem("a", Entry("a", verdict="running", trouble="slow", step=3, steps=9)),
            "-warn",
            "slow now at step 3 of 9",
        ),
    ],
)
def test_the_verdict_of_a_row_is_that_of_its_state(
    item: RunItem, severity: str, title: str
) -> None:
    verdict = judge_item(item)
    assert verdict.severity.value == severity
    assert verdict.title.startswith(title)


def test_a_run_with_a_checkpoint_can_be_resumed() -> None:
    def describe_keys(entry: Entry, checkpoint_step: int) -> str:
        keys = {"resume": "ctrl+r", "open": "enter", "copy-run-command": "y"}.__getitem__
        next_keys = list_next_keys(RunItem("a", entry), checkpoint_step, keys)
        return ", ".join(f"{one.key} {one.text}" for one in next_keys)

    failed = Entry("a", verdict="failed", cause="killed", started=0.0, step=25)
    assert "ctrl+r resume from checkpoint 20 (5 steps lost)" in describe_keys(failed, 20)
    assert "resume" not in describe_keys(failed, 0)
    assert "resume" not in describe_keys(Entry("a", verdict="finished"), 20)


def test_a_note_has_the_room_that_settings_do_not_need() -> None:
    note = "the baseline of all others, on four hosts"
    entry = Entry("a", verdict="finished", job={"batch_size": 256}, note=note)
    columns, (row,) = fit_table(make_rows([RunItem("a", entry)], {}, {}, (), 0.0), 300)
    assert row[-1].text == note
    needed = {column.title: max(column.width, column.most) for column in columns}
    assert needed["settings"] == len("batch_size=256") + 1
    assert choose_columns(columns, sum(needed.values())).widths[-1] > len(note)


def test_a_live_run_that_stalls_or_is_slow_comes_first_and_says_so() -> None:
    def make_live(name: str, history: Told) -> Entry:
        overview = make_overview(history.state())
        return Entry(name, verdict="running", step=34, steps=100, trouble=overview.trouble)

    slow = Told(plan(2)).training()
    for step in range(1, 61):
        for rank in range(2):
            slow.rank(rank, stepped(rank, step, seconds=0.5, ready=0.4 if rank else 0.05))
    runs = (
        make_live("c", Told(plan(2)).training(3)),
        make_live("b", Told(plan(2)).training(3).session(Stalled((0, 1), 30.0))),
        make_live("a", slow),
    )
    listed = Listed(runs)
    rows = select_items(listed, Answered(), (), "newest first")
    states = [describe_state(item) for item in rows.items]
    assert [state.text for state in states] == ["✗ stalled", "▲ slow", "● running"]
    assert [state.style for state in states] == ["table--bad", "table--warn", "table--good"]
    needy = [item for item in rows.items if item.needs_care(time.time())]
    assert "3 live, 2 to look at" in count_listed(listed, rows, needy, has_filter=False).plain
    assert not make_overview(slow.done(0, 1).closed()).trouble


def test_a_start_that_waits_long_for_a_host_says_so() -> None:
    def find_trouble(seconds: float) -> str:
        history = Told(plan(2)).session(HostPhaseChanged(0, "connecting"))
        history.session(RemarkMade(1, "still there"), after=seconds)
        return make_overview(history.state()).trouble

    assert [find_trouble(seconds) for seconds in (5.0, 60.0)] == ["", "waiting"]


def test_a_live_run_that_has_diverged_says_so() -> None:
    history = Told(plan(2)).training()
    for step in range(1, 30):
        for rank in range(2):
            history.rank(rank, replace(stepped(rank, step), loss=2.3 if step < 3 else 900.0 + step))
    assert make_overview(history.state()).trouble == "diverged"
