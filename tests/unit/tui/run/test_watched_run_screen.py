"""`rankboard watch`: the run screen over a record that grows, and keys that act on nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from remote.events import Attached, Restarted, SessionClosed
from remote.record.layout import EVENTS
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from tests.kit.acted import until
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan
from tests.kit.looks import screen_text
from tests.kit.recorded import record, recorded, recorder
from training.wire.host_events import Exited
from tui.app.watch_app import WatchApp
from tui.commands.watch import watch
from tui.kit.messages import ReadRecord
from tui.run.body import RunBody

Run = Callable[..., Done]
assert run  # the fixture
assert recorder  # the fixture
PLAN = plan(2)


async def shown(pilot: Pilot[None], words: str) -> None:
    app = pilot.app
    assert isinstance(app, WatchApp)
    await until(pilot, lambda: words in screen_text(app))


async def test_a_live_run_is_shown_up_to_its_end(recorder: Recorder) -> None:
    state, history = RunState(PLAN), History(PLAN).training(steps=2)
    record(recorder, history, state)
    app = WatchApp(WatchedRun(recorder.folder, PLAN))
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "step 2/")
        await shown(pilot, f"watching beside its launcher, process {os.getpid()}: nothing here")
        history.records.clear()
        record(recorder, history.training(steps=7), state)
        await shown(pilot, "step 7/")
        history.records.clear()
        record(recorder, history.done(0, 1).session(SessionClosed()), state)
        await shown(pilot, "finished in")
        assert "watching" not in screen_text(app)
        await pilot.press("q")
    app.finish()
    assert app.exit_code == 0


async def test_a_run_that_goes_on_after_its_end_is_shown_as_one_that_trains(
    recorder: Recorder,
) -> None:
    state, history = RunState(PLAN), History(PLAN).training(steps=2)
    record(recorder, history.done(0, 1).session(SessionClosed()), state)
    app = WatchApp(WatchedRun(recorder.folder, PLAN))
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "finished in")
        ended = body(app).contents()
        history.records.clear()
        history.attempt = 1
        history.session(Attached(), Restarted((0, 1), "once more")).training(steps=5)
        record(recorder, history, state)
        await shown(pilot, "step 5/")
        assert "finished in" not in screen_text(app)
        assert ended.is_over
        assert not body(app).contents().is_over, "the log has its room again"
        await pilot.press("q")
    app.finish()


def body(app: WatchApp) -> RunBody:
    return app.screen.query_one(RunBody)


async def test_no_key_acts_on_the_run(recorder: Recorder) -> None:
    record(recorder, History(PLAN).training(steps=2), RunState(PLAN))
    before = (recorder.folder / EVENTS).read_bytes()
    app = WatchApp(WatchedRun(recorder.folder, PLAN))
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "watching beside")
        assert "New run" not in screen_text(app)
        await pilot.press("n", "s")
        await shown(pilot, "stacks of all ranks")
        assert "Ask again" not in screen_text(app)
        await pilot.press("s", "escape", "D")
        await shown(pilot, "checks of 2 hosts")
        await pilot.press("escape")
        await shown(pilot, "watching beside")
        await pilot.press("q")  # leaves at once: there is nothing to ask
    app.finish()
    assert app.exit_code == 0
    assert (recorder.folder / EVENTS).read_bytes() == before


async def test_the_exit_code_is_that_of_the_run(tmp_path: Path) -> None:
    history = History(PLAN).training(steps=2).rank(0, Exited(0, 1)).session(SessionClosed())
    app = WatchApp(WatchedRun(recorded(tmp_path, history), PLAN))
    async with app.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "✗ failed")
        await pilot.press("q")
    app.finish()
    assert app.exit_code == 1


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("x", "No run called 'x' in runs"),
        (
            "last",
            f"watch needs a terminal on stdin, stdout and stderr; without one, use rankboard "
            f"logs {PLAN.run} --follow",
        ),
        ("other", "other has the plan of another run"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, named: str, message: str) -> None:
    folder = recorded(tmp_path / "runs", History(PLAN).training())
    if named == "other":
        folder.rename(folder.with_name("other"))
    done = run(watch, run=named)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


async def test_files_are_saved_here_with_the_name_of_the_run(
    recorder: Recorder, tmp_path: Path
) -> None:
    record(recorder, History(PLAN).training(steps=2), RunState(PLAN))
    before = set(recorder.folder.iterdir())
    app = WatchApp(WatchedRun(recorder.folder, PLAN))
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "watching beside")
        await pilot.press("W", "3", "W")
        for name in ("log-*.txt", "loss-step2.csv"):
            await until(pilot, lambda name=name: any(tmp_path.glob(f"{PLAN.run}-{name}")))
        await pilot.press("q")
    app.finish()
    assert set(recorder.folder.iterdir()) == before


async def test_what_is_seen_closely_is_read_from_the_record_of_the_run(recorder: Recorder) -> None:
    record(recorder, History(PLAN).training(steps=2), RunState(PLAN))
    app, read = WatchApp(WatchedRun(recorder.folder, PLAN)), list[Path]()

    def curves(folder: Path) -> Curves:
        read.append(folder)
        return Curves(2, 1)

    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "watching beside")
        app.screen.post_message(ReadRecord(PLAN.run, curves, lambda _: None))
        await until(pilot, lambda: read == [recorder.folder])
        await pilot.press("q")
    app.finish()
