"""A recorded run that plays: its clock, and the state that it shows."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import ComposeResult
from textual.widgets import Static

from remote.events import Attached, ClockMeasured, Detached
from remote.format import duration
from remote.record import lock, tape, watch
from remote.record.events_file import RunFolderError
from remote.record.lock import Holder
from remote.run.state.phases import RunPhase
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import recorded
from training.wire.events import encode
from training.wire.rank_events import Epoch, Evaluated
from tui.kit import palette
from tui.kit.replay import Replay
from tui.kit.session_clock import SessionClock
from tui.kit.themes import InkedApp
from tui.run.components.record_lines import ReplaySlider, describe_end, describe_replay


class Player:
    """A replay in the hands of a test, which moves its clock."""

    def __init__(self, folder: Path, made: History) -> None:
        self.clock = 1000.0
        self.replay = Replay(folder, made.plan, lambda: self.clock)

    def look(self) -> None:
        """One look at the clock, as the thread of the replay takes it."""
        self.replay._follow()


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Callable[..., Player]]:
    players: list[Player] = []

    def player(steps: int = 50, *, ended: bool = True) -> Player:
        made = History(plan(2)).training(steps, steps)
        if ended:
            made.done(0, 1).closed()
        players.append(Player(recorded(tmp_path, made), made))
        return players[-1]

    yield player
    for one in players:
        one.replay._tape.close()


def test_it_begins_at_the_end_and_is_paused(player: Callable[..., Player]) -> None:
    one = player()
    replay = one.replay
    assert (replay.state.phase, replay.state.step) == (RunPhase.ENDED, 50)
    assert replay.position == replay.duration > 1
    assert not replay.is_playing
    one.clock += 100
    one.look()
    assert replay.position == replay.duration


def test_the_end_of_an_epoch_is_told_with_the_steps_that_come_after_it(tmp_path: Path) -> None:
    """The steps of a second are recorded as a block of each rank, the first one's steps first."""
    made = History(plan(2)).training(8, 8)
    begin = made.now
    for rank in range(2):
        made.now = begin
        for step in range(9, 13):
            made.now += 0.1
            made.rank(rank, stepped(rank, step))
            if step == 10:
                made.rank(rank, Epoch(rank, 1, 10, 0.5, 0.9, 90, 1.0))
                made.rank(rank, Evaluated(rank, 1, 10, 0.4, 0.8, 100, 0.1))
    made.done(0, 1).closed()
    one = Player(recorded(tmp_path, made), made)
    replay = one.replay
    for moment, is_told in ((0.15, False), (0.35, True)):
        replay.go_to(begin + moment - replay._began)
        one.look()
        assert replay.state.step == (9 if not is_told else 11)
        assert bool(replay.state.progress.evaluations) is is_told
        assert any(line.stream == "epoch" for line in replay.state.log.lines) is is_told
    replay._tape.close()


def test_it_plays_from_the_beginning_at_its_speed(player: Callable[..., Player]) -> None:
    one = player()
    replay = one.replay
    replay.toggle()
    one.look()
    assert (replay.position, replay.state.step) == (0.0, 0)
    assert replay.is_playing
    steps = []
    for _ in range(4):
        one.clock += replay.duration / 4
        one.look()
        steps.append(replay.state.step)
    assert steps == sorted(steps)
    assert steps[0] < steps[1] < steps[2] < steps[3] == 50
    assert not replay.is_playing
    assert replay.state.phase is RunPhase.ENDED


def test_at_the_end_of_a_run_that_goes_on_nothing_is_played(player: Callable[..., Player]) -> None:
    replay = player(ended=False).replay
    assert not replay.toggle()
    assert (replay.position, replay.is_playing) == (replay.duration, False)
    replay.jump(-0.3)
    assert replay.toggle()
    assert replay.is_playing


def test_a_replay_that_is_paused_stays_where_it_is(player: Callable[..., Player]) -> None:
    one = player()
    replay = one.replay
    replay.toggle()
    one.clock += 0.2
    replay.pause()
    one.clock += 100
    assert (replay.position, replay.is_playing) == (pytest.approx(0.2), False)
    replay.go_to(replay.duration)
    replay.pause()
    one.look()
    assert replay.position == replay.duration


def test_a_replay_tells_at_its_end_that_nobody_records_the_run_any_more(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "launcher", lambda folder: Holder(1, "here"))
    one = player(10, ended=False)
    replay = one.replay
    assert replay.news.startswith("watching beside its launcher")
    more = History(replay.plan).training(10, 10)
    with (replay.folder / "events.jsonl").open("a") as file:
        file.write(encode(more.session(Detached(False)).records[-1]))
    monkeypatch.setattr(lock, "launcher", lambda folder: None)
    one.look()
    assert replay.news.startswith("its launcher has left the run, which continues without a record")
    assert f"rankboard attach {replay.plan.run} returns" in replay.news
    replay.go_to(replay.duration / 2)
    one.look()
    assert replay.news == "", "what was then says nothing of now"


def test_a_replay_of_an_ended_run_has_no_news(player: Callable[..., Player]) -> None:
    one = player()
    assert one.replay.news == ""
    one.replay.go_to(0.5)
    one.look()
    assert one.replay.news == ""


def test_the_speed_counts_from_now_on(player: Callable[..., Player]) -> None:
    one = player()
    replay = one.replay
    replay.toggle()
    one.clock += 0.2
    replay.change_speed(2)
    assert (replay.speed, replay.position) == (4, pytest.approx(0.2))
    one.clock += 0.1
    assert replay.position == pytest.approx(0.6)
    replay.toggle()
    one.clock += 100
    assert replay.position == pytest.approx(0.6)
    for _ in range(50):
        replay.change_speed(1)
    assert replay.speed == 1024
    for _ in range(50):
        replay.change_speed(-1)
    assert replay.speed == 0.25


def test_it_jumps_to_any_time(player: Callable[..., Player]) -> None:
    one = player()
    replay = one.replay
    seen = {}
    for position in (0.5, 1.0, 0.2, 0.8, 0.5):
        replay.go_to(position)
        one.look()
        assert replay.position == position
        assert seen.setdefault(position, replay.state.step) == replay.state.step
    assert seen[0.2] < seen[0.5] < seen[0.8] < seen[1.0]
    replay.jump(-100)
    one.look()
    assert (replay.position, replay.state.phase) == (0.0, RunPhase.STARTING)
    replay.jump(100)
    one.look()
    assert (replay.position, replay.state.step) == (replay.duration, 50)


def test_its_clock_is_the_run_s(player: Callable[..., Player]) -> None:
    """What is drawn does not grow older while the replay is paused."""
    one = player()
    one.replay.go_to(0.7)
    one.look()
    state = one.replay.state
    clock = SessionClock(lambda: one.clock)
    begun = clock.now(state)
    assert begun - state.started == pytest.approx(0.7, abs=0.02)
    one.clock += 100
    assert clock.now(state) == begun


def test_a_run_that_is_recorded_now_is_followed(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "launcher", lambda folder: Holder(1, "here"))
    one = player(10, ended=False)
    replay, folder = one.replay, one.replay.folder
    assert replay.is_live
    more = History(replay.plan).training(10, 10)
    known = len(more.records)
    more.done(0, 1).closed()
    with (folder / "events.jsonl").open("a") as file:
        file.writelines(map(encode, more.records[known:]))
    one.look()
    assert replay.state.phase is RunPhase.ENDED
    assert replay.position == replay.duration
    monkeypatch.setattr(lock, "launcher", lambda folder: None)
    one.look()
    assert not replay.is_live


def test_a_large_run_is_shown_by_an_overview_until_it_is_read(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "LARGE", 1000)
    one = player(400)
    replay = one.replay
    shown = replay.state
    assert (shown.phase, replay.reading) == (RunPhase.ENDED, 0.0)
    shares = []
    while replay.reading is not None:
        assert replay.state is shown
        one.look()
        shares.append(replay.reading)
    assert len(shares) > 1
    assert replay.state is not shown
    assert replay.state.step == 400


def test_a_replay_ends_when_it_is_told_to(player: Callable[..., Player]) -> None:
    replay = player().replay
    batches = replay.batches()
    assert next(batches) == []
    replay.stop()
    assert list(batches) == []


class Waits(threading.Event):
    """Keeps for how long somebody waited, who never does."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.times.append(timeout)
        return True


def test_it_comes_to_the_end_though_time_goes_on_while_it_reads(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = player()
    replay = one.replay
    replay._wake = waits = Waits()
    advance = replay._tape.advance
    replay.toggle()
    one.clock += 0.9 * replay.duration
    batches = replay.batches()
    next(batches)  # reads from the beginning on
    one.clock -= 0.01

    def slow(until: float, lines: int) -> bool:
        one.clock += replay.duration
        return advance(until, lines)

    monkeypatch.setattr(replay._tape, "advance", slow)
    next(batches)
    assert replay.state.phase is not RunPhase.ENDED
    next(batches)
    assert None not in waits.times, "there is more to take in"
    assert replay.state.phase is RunPhase.ENDED
    replay.toggle()
    replay.toggle()
    replay.go_to(0.5)
    next(batches)
    next(batches)
    assert waits.times[-1] is None, "it is paused, elsewhere than at the end"
    batches.close()


def test_the_clock_of_a_host_that_is_wrong_does_not_count(tmp_path: Path) -> None:
    made = (
        History(plan(2)).session(ClockMeasured(0, 500.0), ClockMeasured(1, -500.0)).training(20, 40)
    )
    made.records = [
        replace(one, time=one.time + {0: 500.0, 1: -500.0}.get(one.host, 0.0))
        for one in made.records
    ]
    replay = Replay(recorded(tmp_path, made), made.plan, lambda: 0.0)
    assert replay.duration == pytest.approx(made.records[-1].time + 500 - made.records[0].time)
    assert replay.position == replay.duration
    replay.go_to(replay.duration / 2)
    replay._follow()
    assert 5 < replay.state.step < 15
    replay._tape.close()


def test_an_ended_run_that_goes_on_is_followed(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = player().replay
    batches, duration = replay.batches(), replay.duration
    next(batches)
    assert not replay.is_live
    more = History(replay.plan).training(10, 10)
    more.now += 100
    with (replay.folder / "events.jsonl").open("a") as file:
        file.write(encode(more.session(Attached()).records[-1]))
    monkeypatch.setattr(lock, "launcher", lambda folder: Holder(1, "here"))
    next(batches)
    assert replay.is_live
    assert replay.position == replay.duration > duration + 50
    batches.close()


def test_a_replay_says_why_it_cannot_go_on(player: Callable[..., Player]) -> None:
    replay = player(ended=False).replay
    shutil.rmtree(replay.folder)
    assert [*replay.batches()] == []
    told = f"{replay.folder} is gone: somebody has deleted the run"
    assert ReplaySlider(replay)._slider_line(80, has_key_line=True).plain == told


def test_nothing_is_replayed_where_nothing_is_recorded(tmp_path: Path) -> None:
    made = History(plan(2))
    with pytest.raises(RunFolderError, match="has no records"):
        Replay(recorded(tmp_path, made), made.plan)


def test_a_jump_while_it_reads_the_end_is_not_lost(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = player()
    replay = one.replay
    advance = replay._tape.advance

    def jumped(until: float, lines: int) -> bool:
        replay.go_to(0.5)
        return advance(until, lines)

    monkeypatch.setattr(replay._tape, "advance", jumped)
    one.look()
    assert replay.position == 0.5


def test_the_end_stays_where_it_is_while_the_way_there_is_read(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "RECORDS", 20)
    one = player()
    replay, duration = one.replay, one.replay.duration
    replay.go_to(0.0)
    one.look()
    replay.go_to(duration)
    one.look()
    assert replay.state.step < 50
    assert replay.position == replay.duration == duration
    replay.jump(-0.2)
    assert replay.position == pytest.approx(duration - 0.2)
    for _ in range(10):
        one.look()
    assert 0 < replay.state.step < 50
    assert replay.duration == duration
    assert replay.state.now == pytest.approx(replay.state.started + duration - 0.2)


class SliderApp(InkedApp[None]):
    """A screen with nothing but the bar of a replay."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self.slider = ReplaySlider(replay)

    def compose(self) -> ComposeResult:
        yield self.slider


async def test_a_click_on_the_bar_goes_to_its_time(
    player: Callable[..., Player], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = player().replay
    times: list[float] = []
    monkeypatch.setattr(replay, "go_to", times.append)
    replay.change_speed(1)  # the bar comes with the first use
    app = SliderApp(replay)
    async with app.run_test(size=(80, 10)) as pilot:
        app.slider.show()
        await pilot.pause()
        line = str(app.slider.query_one(Static).content)
        bar_signs = [palette.sign(name) for name in ("full", "live", "rest")]
        bar_cells = [cell for cell, sign in enumerate(line) if sign in bar_signs]
        for cell in (bar_cells[0], bar_cells[-1]):
            await pilot.click(Static, offset=(cell, 0))
    assert times == [0.0, replay.duration]


async def test_a_replay_that_nobody_has_used_has_no_bar(player: Callable[..., Player]) -> None:
    replay = player().replay
    app = SliderApp(replay)
    async with app.run_test(size=(80, 24)) as pilot:
        app.slider.show()
        await pilot.pause()
        line = str(app.slider.query_one(Static).content)
        assert line.startswith("recording ")
        assert "space replays" in line
        replay.change_speed(1)
        app.slider.show()
        line = str(app.slider.query_one(Static).content)
        assert line.startswith(f"‖ 2x  {duration(replay.duration)} ━")
        assert line.endswith("space play from the start   ←/→ move   < > speed 2x")
    app = SliderApp(replay)
    async with app.run_test(size=(40, 10)) as pilot:
        app.slider.show()
        await pilot.pause()
        line = str(app.slider.query_one(Static).content)
        assert "space play" in line
        assert "speed" not in line, "the bar needs the room"


def test_its_badge_says_how_fast_it_plays_and_at_the_end_there_is_none(
    player: Callable[..., Player],
) -> None:
    one = player()
    assert describe_replay(one.replay) == "", "it begins at the end"
    one.replay.toggle()
    one.replay.change_speed(3)
    one.look()
    assert describe_replay(one.replay) == "▶ REPLAY 8x"
    one.replay.pause()
    assert describe_replay(one.replay) == "‖ REPLAY paused before the first step"
    one.replay.go_to(one.replay.duration * 0.6)
    one.look()
    run = one.replay.state
    step, steps = run.step, run.progress.steps
    assert 0 < step < steps
    ahead = max(rank.step for rank in run.ranks)
    assert ahead == step + 1, "at a moment, one rank is ahead"
    assert describe_replay(one.replay) == f"‖ REPLAY paused at steps {step}-{ahead} of {steps}"
    assert describe_end(one.replay) == "ended: finished", "though this moment is long before"
