"""Every screen of the dashboard in a state that is always the same, for tests that hold how screens
look."""

from __future__ import annotations

import itertools
import math
import random
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from remote import events as launcher
from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, Policy
from remote.record import marks, read
from remote.record.lock import Holder
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from tests.kit import histories
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.acted_study import acted_runner, finish, stopped
from tests.kit.checks import hello
from tests.kit.dashboard import asked
from tests.kit.dumps import LOADS, WAITS, by
from tests.kit.idle import draw_nothing
from tests.kit.looks import draw, screen_text
from tests.kit.played import Nowhere
from tests.kit.recorded import record, recorded
from training.job import Job
from training.wire import events, host_events, rank_events
from training.wire.events import SESSION, Record
from training.wire.jsonl import dumps
from tui.app.app import RankboardApp
from tui.app.compare_app import CompareApp
from tui.app.dashboard import Dashboard
from tui.app.study_app import StudyApp
from tui.app.watch_app import WatchApp
from tui.home.history import History
from tui.home.preview import RunPreview
from tui.kit.background import RepeatedTask
from tui.kit.key_names import parse_key
from tui.kit.open_runs import LaunchRequest
from tui.kit.replay import Replay
from tui.kit.session_clock import SessionClock
from tui.launch.cell_editor import CellEditor
from tui.launch.form_table import FormTable

NOW = 1_795_339_800.0
"""When everything happens: 2026-11-22 09:30 in UTC."""
JOB = Job(sync="ddp", model="vgg11", dataset="cifar10", batch_size=256, steps=400)


@dataclass
class Scene:
    """A dashboard, what brings it to the state that is to be seen, and what ends it."""

    app: Dashboard[Any]
    play: Callable[[Pilot[None]], Awaitable[None]]
    end: Callable[[], None] = lambda: None


Made = Callable[[Path], Scene]
SCENES: dict[str, Made] = {}
"""All scenes by their names."""


def scene(made: Made) -> Made:
    """Enter a scene by the name of the function that makes it."""
    SCENES[made.__name__] = made
    return made


TODAY = 1_795_953_600.0
"""Noon of 29 November 2026 in Unix time, some days after the runs of the scenes."""


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No time passes, it is UTC everywhere, and what is random elsewhere is counted."""
    count = itertools.count(0x3F9A)
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(SessionClock.__init__, "__defaults__", (lambda: 0.0,))
        clock = SimpleNamespace(time=lambda: TODAY, monotonic=time.monotonic)
        patch.setattr("tui.home.screen.time", clock)
        patch.setattr("remote.plan.plan.secrets.token_hex", lambda _: f"{next(count):x}")
        patch.setattr("remote.record.lock._named", lambda _: Holder(4711, socket.gethostname()))
        patch.setattr(Screen, "_compositor_refresh", draw_nothing)
        patch.setenv("TZ", "UTC")
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLORTERM", "truecolor")
        time.tzset()
        yield
    time.tzset()


# Runs that are acted out


def session(hosts: int = 4, slots: int = 1, restarts: int = 0) -> ActedSession:
    """A run that has been planned."""
    lab, policy = cluster(hosts, slots), Policy(max_restarts=restarts)
    of = Plan("20261122-093000-ddp-vgg11-3f9a", lab.hosts, JOB, policy)
    made = ActedSession(of)
    made.clock = NOW
    return made


def settle(one: ActedSession) -> ActedSession:
    """Take in all that was said, but for the end of the batches."""
    said = []
    while not one._queue.empty():
        said.append(one._queue.get())
    for batch in said:
        for each in batch or ():
            apply_record(one.state, each)
        if batch is None:
            one._queue.put(None)
    return one


def trained(
    hosts: int = 4, slots: int = 1, steps: int = 240, *, late: int = -1, restarts: int = 0
) -> ActedSession:
    """A run that trains, with tests and checkpoints, and one rank that is late from step 100 on."""
    one = session(hosts, slots, restarts)
    one.start(400)
    one.cores = {late // slots: 0.5}
    for host in range(hosts):
        one.say(host, hello(host + 1, cores=one.cores.get(host, 4.0)))
    for first in range(1, steps + 1, 100):
        last = min(steps, first + 99)
        one.steps(first, last, 0.25, late=late if first > 1 or steps < 200 else -1)
        if last % 100 == 0:
            right = 0.9 - 0.5 * math.exp(-last / 120)
            tested = rank_events.Evaluated(0, last // 100, last, 1.1 - right / 2, right, 360, 0.4)
            one.say(0, tested, rank_events.Saved(0, last // 100, last, 0.3, 37_000_000))
    return settle(one)


def shown(one: Any, folder: Path, *keys: str, seen: str = "") -> Scene:
    """The dashboard over a run that was attached to, after these keys, once a text is `seen`."""
    lab, runs_dir = cluster(2, 2), folder / "runs"
    app = RankboardApp(LaunchRequest(lab, lab, JOB, _no, _no, attached=one, runs_dir=runs_dir))

    async def play(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.screen.query("RunHeader")))
        await press(pilot, *keys)
        await until(pilot, lambda: seen in screen_text(app))

    return Scene(app, play, one.close if isinstance(one, ActedSession) else one.stop)


def _no(*_: object) -> Any:
    raise AssertionError("no run is begun here")


@scene
def starting(folder: Path) -> Scene:
    one = session()
    for host, phase in enumerate(("ready", "deploying", "connecting", "starting")):
        one.say(SESSION, launcher.HostPhaseChanged(host, phase), after=0.5)  # type: ignore[arg-type]
    one.say(SESSION, launcher.ConnectionLost(2, "node3 does not answer"), after=9.0)
    return shown(settle(one), folder)


@scene
def live(folder: Path) -> Scene:
    return shown(trained(), folder)


@scene
def slow(folder: Path) -> Scene:
    return shown(trained(late=2), folder)


@scene
def ranks_32(folder: Path) -> Scene:
    return shown(trained(4, 8, 120, late=13), folder)


@scene
def ranks_128(folder: Path) -> Scene:
    return shown(trained(16, 8, 40, late=77), folder)


@scene
def failed(folder: Path) -> Scene:
    one = trained()
    one.fail(1)
    return shown(settle(one), folder)


@scene
def finished(folder: Path) -> Scene:
    one = trained(steps=400)
    one.finish()
    return shown(settle(one), folder)


@scene
def restarted(folder: Path) -> Scene:
    one = trained(restarts=2)
    reason = "node2, rank 1: killed by SIGKILL at step 240"
    one.say(SESSION, launcher.AttemptFailing(), after=2.0)
    settle(one)
    apply_record(
        one.state, Record(SESSION, 1, 10**6, one.clock, launcher.Restarted((0, 1, 2, 3), reason))
    )
    return shown(settle(one), folder)


@scene
def rank_page(folder: Path) -> Scene:
    return shown(trained(late=2), folder, "1", "enter")


@scene
def chart_zoomed(folder: Path) -> Scene:
    return shown(trained(), folder, "3", "z", *["left"] * 8)


@scene
def chart_of_ranks(folder: Path) -> Scene:
    return shown(trained(late=2), folder, "3", "z", "b")


@scene
def chart_log(folder: Path) -> Scene:
    return shown(trained(late=2), folder, "3", "l", "x", "left", "left")


@scene
def hosts(folder: Path) -> Scene:
    return shown(trained(late=2, slots=2), folder, "4")


@scene
def log_all(folder: Path) -> Scene:
    return shown(logged(), folder, "2", "z", "v")


@scene
def log_filtered(folder: Path) -> Scene:
    return shown(logged(), folder, "2", "&", *"shard", "enter")


def logged() -> ActedSession:
    one = trained(steps=40)
    for rank in range(4):
        said = f"loading shard\nreached step {rank * 7}\nwarning: the queue of workers is empty"
        one.say(rank, host_events.OutputText(rank, "stdout", said), after=1.0)
    return settle(one)


@scene
def stacks(folder: Path) -> Scene:
    one = trained()
    one.say(SESSION, launcher.Stalled((0, 1, 2, 3), 31.0), after=31.0)
    one.say(SESSION, launcher.StacksAsked())
    for rank in range(4):
        one.say(rank, by(LOADS if rank == 2 else WAITS, rank), after=0.1)
    return shown(settle(one), folder, "s")


@scene
def stalled(folder: Path) -> Scene:
    one = trained()
    one.say(SESSION, launcher.Stalled((0, 1, 2, 3), 31.0), after=31.0)
    one.say(SESSION, launcher.StacksAsked())
    for rank in range(4):
        one.say(rank, by(LOADS if rank == 2 else WAITS, rank), after=0.1)
    return shown(settle(one), folder)


@scene
def doctor(folder: Path) -> Scene:
    one = session()
    found = [
        launcher.CheckFinished(host, check, "ok", text)
        for host in range(4)
        for check, text in (("address", f"10.0.0.{host + 1}"), ("python", "3.11.9"))
    ]
    found += [
        launcher.CheckFinished(
            2, "disk", "warning", "1.2 GB free", "remove old runs: rankboard prune"
        ),
        launcher.CheckFinished(
            3, "torch", "failed", "torch is not installed", "pip install torch on node4"
        ),
    ]
    one.say(SESSION, *found)
    return shown(settle(one), folder, "D")


@scene
def help_page(folder: Path) -> Scene:
    return shown(trained(), folder, "?")


@scene
def quit_dialog(folder: Path) -> Scene:
    return dialog(shown(trained(), folder, "q"))


def dialog(of: Scene) -> Scene:
    """A scene that ends in a dialog."""

    async def play(pilot: Pilot[None]) -> None:
        await of.play(pilot)
        await asked(pilot)

    return replace(of, play=play)


@scene
def alerts_list(folder: Path) -> Scene:
    return shown(_alarmed(), folder, "!")


def _alarmed() -> ActedSession:
    one = trained(late=2)
    one.say(SESSION, launcher.HostSilent(0, 10.0), after=1.0)
    one.say(1, rank_events.StepFinished(1, 3, 241, math.nan, 0.25), after=1.0)
    return settle(one)


@scene
def palette(folder: Path) -> Scene:
    return shown(trained(), folder, "ctrl+p", seen="show all lines, or only news")


# Recorded runs


def history(number: int, sync: str, model: str, steps: int = 60) -> histories.History:
    """A recorded run; the higher its number the slower it is."""
    name = f"20261122-0{number}3000-{sync}-{model}-{number:04x}"
    job = replace(JOB, sync=sync, model=model, steps=60)
    of = replace(histories.plan(4), run=name, work=job)
    made, chance = histories.History(of), random.Random(number)
    made.now = NOW - 86_400 + 3_600 * number
    for host in range(4):
        made.session(launcher.HostPhaseChanged(host, "ready"))
    made.training(total=60)
    for step in range(1, steps + 1):
        made.now += 0.2 * (1 + number / 4) - 0.04
        for rank in range(4):
            took = 0.2 * (1 + number / 4) * chance.uniform(0.95, 1.05)
            loss = 0.2 + 2.1 * math.exp(-step / 20) + chance.uniform(0, 0.1)
            one = rank_events.StepFinished(
                *(rank, (step - 1) // 10 + 1, step, loss, took),
                data=took * 0.05,
                compute=took * 0.7,
                sync=took * 0.25,
                ready=took * 0.7,
                samples=64,
                correct=min(64, 10 + step),
                bytes_sent=37_000_000,
            )
            told = events.PREFIX + dumps(events.to_object(one))
            made.rank(rank, host_events.OutputText(rank, "stdout", told))
        if step % 20 == 0:
            made.rank(
                0, rank_events.Evaluated(0, step // 10, step, 0.9, 0.5 + step / 150, 100, 1.0)
            )
    return made


def shelf(runs_dir: Path) -> list[Path]:
    """Recorded runs: finished, failed, of unknown end, with a star, a note and a name."""
    made = [
        recorded(
            runs_dir, history(1, "ddp", "vgg11").done(0, 1, 2, 3).session(launcher.SessionClosed())
        ),
        recorded(
            runs_dir,
            history(2, "ring", "vgg11", 40)
            .rank(2, host_events.Exited(2, -9, "SIGKILL"))
            .session(launcher.SessionClosed()),
        ),
        recorded(runs_dir, history(3, "gather_scatter", "lenet5", 30)),
        recorded(
            runs_dir,
            history(4, "parameter_server", "vgg11")
            .done(0, 1, 2, 3)
            .session(launcher.SessionClosed()),
        ),
    ]
    marks.star(made[0], True)
    marks.write_name(made[0], "baseline")
    marks.write_note(made[3], "asynchronous, to compare with the baseline")
    return made


def at_home(folder: Path, *keys: str) -> Scene:
    """The list of runs, after these keys."""
    lab, runs_dir = cluster(2, 2), folder / "runs"
    launch = LaunchRequest(lab, lab, JOB, _no, _no, home=True, runs_dir=runs_dir)
    app = RankboardApp(launch, History(runs_dir, None, Nowhere()))

    async def play(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "asking" not in screen_text(app) and "live" in screen_text(app))
        await press(pilot, *keys)
        await until(pilot, lambda: not _is_working(app))  # the curves come from a thread

    return Scene(app, play)


def _is_working(app: RankboardApp) -> bool:
    """Return True if the list of runs, or a part of it, reads or asks anything."""
    screen = app.screen_stack[-1]
    parts = [screen, *vars(screen).values(), *screen.query(RunPreview)]
    attributes = [value for part in parts for value in getattr(part, "__dict__", {}).values()]
    tasks = [value for value in attributes if isinstance(value, RepeatedTask)]
    return any(task.is_busy for task in tasks)


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, each once all is drawn."""
    await draw(pilot)
    for key in keys:
        await pilot.press(parse_key(key))
        await draw(pilot)


@scene
def home(folder: Path) -> Scene:
    shelf(folder / "runs")
    return at_home(folder)


@scene
def home_empty(folder: Path) -> Scene:
    return at_home(folder)


@scene
def home_marked(folder: Path) -> Scene:
    shelf(folder / "runs")
    return at_home(folder, "space", "down", "space")


@scene
def home_filtered(folder: Path) -> Scene:
    shelf(folder / "runs")
    return at_home(folder, "/", *"sync=ring")


@scene
def home_note(folder: Path) -> Scene:
    shelf(folder / "runs")
    return at_home(folder, "m")


@scene
def home_name(folder: Path) -> Scene:
    shelf(folder / "runs")
    return at_home(folder, "N")


@scene
def home_delete(folder: Path) -> Scene:
    shelf(folder / "runs")
    return dialog(at_home(folder, "down", "d"))


@scene
def replay(folder: Path) -> Scene:
    run = shelf(folder / "runs")[1]
    one = Replay(run, read.load_plan(run), lambda: 0.0)
    found = shown(one, folder, "pageup", "pageup", "pageup")

    async def play(pilot: Pilot[None]) -> None:
        await found.play(pilot)
        await until(pilot, lambda: abs(one.state.now - one.position - one._began) < 1e-6)

    return replace(found, play=play)


@scene
def compare(folder: Path) -> Scene:
    return compared(folder, 2)


@scene
def compare_many(folder: Path) -> Scene:
    return compared(folder, 4)


def compared(folder: Path, count: int) -> Scene:
    made = shelf(folder / "runs")
    app = CompareApp((made[0], made[3], made[1], made[2])[:count])

    async def play(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "reading the runs" not in screen_text(app))
        await until(pilot, lambda: "by training time" in screen_text(app))

    return Scene(app, play)


@scene
def watch(folder: Path) -> Scene:
    made = history(1, "ddp", "vgg11", 40)
    recorder = Recorder(folder / "runs", made.plan)
    record(recorder, made, RunState(made.plan))
    app = WatchApp(WatchedRun(recorder.folder, made.plan))

    async def play(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "step 40/" in screen_text(app))

    def end() -> None:
        recorder.release()
        app.finish()

    return Scene(app, play, end)


# The form


def form(folder: Path, *keys: str, lab: Cluster | None = None, job: Job = JOB) -> Scene:
    """The launch form, after these keys."""
    lab = lab or cluster(4, 1)
    app = RankboardApp(
        LaunchRequest(lab, lab, job, make_plan, _no, runs_dir=folder / "runs", check=_no)
    )

    async def play(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: any(table.form_rows for table in app.screen.query(FormTable)))
        await press(pilot, *keys)

    return Scene(app, play)


@scene
def form_fresh(folder: Path) -> Scene:
    return form(folder)


@scene
def form_errors(folder: Path) -> Scene:
    found = form(folder)

    async def play(pilot: Pilot[None]) -> None:
        await found.play(pilot)
        for name, value in (("batch_size", "-3"), ("lr", "fast")):
            pilot.app.screen.query_one(FormTable).go_to(name)
            await press(pilot, "enter")
            await until(pilot, lambda: isinstance(pilot.app.focused, CellEditor))
            await press(pilot, "ctrl+u", *value, "enter")

    return replace(found, play=play)


@scene
def form_pick(folder: Path) -> Scene:
    found = form(folder)

    async def play(pilot: Pilot[None]) -> None:
        await found.play(pilot)
        pilot.app.screen.query_one(FormTable).go_to("sync")
        await press(pilot, "enter")

    return replace(found, play=play)


@scene
def presets(folder: Path) -> Scene:
    shelf(folder / "runs")
    found = form(folder, "p")

    async def play(pilot: Pilot[None]) -> None:
        await found.play(pilot)
        await until(pilot, lambda: "11-21" in screen_text(found.app))

    return replace(found, play=play)


# Studies


def studied(folder: Path, ended: int, *keys: str) -> Scene:
    """A study of which so many runs have ended, and one trains."""
    runner = acted_runner(folder / "runs")
    found: Any = runner.launcher
    app = StudyApp(runner)

    async def play(pilot: Pilot[None]) -> None:
        for number in range(ended + 1):
            await until(pilot, lambda n=number: len(found.sessions) > n and runner.current)  # type: ignore[misc]
            one = found.sessions[number]
            if number < ended:
                finish(one, 0.1 * (1 + number % 3))
            else:
                one.start(40)
                one.steps(1, 20)
        await until(pilot, lambda: found.sessions[ended].state.step == 20)
        await press(pilot, *keys)

    def end() -> None:
        runner.stop("enough")
        stopped(found.sessions[-1])

    return Scene(app, play, end)


@scene
def study(folder: Path) -> Scene:
    return studied(folder, 4)


@scene
def study_cell(folder: Path) -> Scene:
    return studied(folder, 4, "d")
