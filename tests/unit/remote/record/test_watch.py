"""A record that is read while it grows: by whole lines, whoever else reads it, whatever becomes of
its launcher."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.events import Attached, Detached, Restarted, SessionClosed
from remote.limits import LIMITS
from remote.record import lock, tape, watch
from remote.record.events_file import EventsReader
from remote.record.layout import EVENTS, LOCK
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase, Verdict
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import record, recorded, recorder
from training.wire.events import Record, encode

PLAN = plan(2)
assert recorder  # the fixture


def write(into: Recorder, history: History) -> None:
    """Record a history, and forget it."""
    record(into, history, RunState(PLAN))
    history.records.clear()


def step_of(run: WatchedRun) -> int:
    return run.state.ranks[0].step


def look(batches: Iterator[list[Record]]) -> None:
    """Have it look once at what has come."""
    assert next(batches) == []


def test_what_has_come_is_read_once_and_in_order(recorder: Recorder) -> None:
    reader = EventsReader(recorder.folder, 2)
    assert [*reader] == []
    history = History(PLAN).training(steps=2)
    write(recorder, history)
    found = [*reader]
    assert [one.event.step for one in found if hasattr(one.event, "loss")] == [1, 1, 2, 2]
    assert [*reader] == []
    write(recorder, history.rank(0, stepped(0, 3)))
    (last,) = reader
    assert last.event == stepped(0, 3)
    reader.close()


def test_half_a_line_waits_for_its_other_half(recorder: Recorder) -> None:
    reader = EventsReader(recorder.folder, 2)
    line = encode(Record(0, 0, 1, 1.0, stepped(0, 1))).encode()
    with (recorder.folder / EVENTS).open("wb", buffering=0) as file:
        for part in (line[:10], line[10:-1]):
            file.write(part)
            assert [*reader] == []
        file.write(line[-1:] + line)
        assert len([*reader]) == 2
    reader.close()


def test_a_run_is_watched_while_it_is_recorded_by_any_number(recorder: Recorder) -> None:
    history = History(PLAN).training(steps=2)
    write(recorder, history)
    watchers = [WatchedRun(recorder.folder, PLAN) for _ in range(3)]
    assert [*map(step_of, watchers)] == [2, 2, 2], "what is there is known at once"
    batches = [watcher.batches() for watcher in watchers]
    write(recorder, history.rank(0, stepped(0, 3)))
    for watcher, each in zip(watchers, batches, strict=True):
        look(each)
        assert step_of(watcher) == 3
        assert watcher.news == (
            f"watching beside its launcher, process {os.getpid()}: nothing here acts on the run"
        )
    write(recorder, history.done(0, 1).session(SessionClosed()))
    for watcher, each in zip(watchers, batches, strict=True):
        look(each)
        assert watcher.has_ended
        assert watcher.state.verdict is Verdict.FINISHED
        assert watcher.news == ""


def test_watching_changes_nothing(recorder: Recorder) -> None:
    write(recorder, History(PLAN).training(steps=2))
    before = {path: path.stat() for path in recorder.folder.rglob("*")}
    watcher = WatchedRun(recorder.folder, PLAN)
    watcher.ask_stacks()
    watcher.detach()
    watcher.stop("now", now=True)
    assert [*watcher.batches()] == []
    after = {path: path.stat() for path in recorder.folder.rglob("*")}
    assert after.keys() == before.keys()
    assert all(after[path].st_mtime_ns == was.st_mtime_ns for path, was in before.items())


def test_a_launcher_that_died_is_told_and_one_that_returns_is_followed(tmp_path: Path) -> None:
    first = Recorder(tmp_path, PLAN)
    history = History(PLAN).training(steps=2)
    write(first, history)
    watcher = WatchedRun(first.folder, PLAN)
    batches = watcher.batches()
    os.close(first._lock)  # as the system does where a process dies
    with (first.folder / EVENTS).open("ab") as file:
        file.write(b'{"host":0,"att')  # it died amid a line
    look(batches)
    assert watcher.news.startswith("its launcher is gone, and what became of the run is not")
    assert f"rankboard attach {PLAN.run} returns" in watcher.news
    assert watcher.state.is_held, "no clock runs on"
    again = Recorder(tmp_path, PLAN, continues=True)
    write(again, history.rank(0, stepped(0, 3)))
    look(batches)
    assert step_of(watcher) == 3
    assert "watching beside its launcher" in watcher.news
    assert not watcher.state.is_held
    again.release()
    watcher.stop()
    assert [*batches] == []


def test_a_run_that_goes_on_after_its_end_is_followed(tmp_path: Path) -> None:
    history = History(PLAN).training(steps=2).done(0, 1).session(SessionClosed())
    folder = recorded(tmp_path, history)
    watcher = WatchedRun(folder, PLAN)
    batches = watcher.batches()
    look(batches)
    assert (watcher.has_ended, watcher.news) == (True, "")
    again = Recorder(tmp_path, PLAN, continues=True)
    history.attempt = 1
    write(again, history.session(Attached(), Restarted((0, 1), "once more")).training(steps=3))
    look(batches)
    assert not watcher.has_ended
    assert "watching beside its launcher" in watcher.news
    assert (watcher.state.attempt, step_of(watcher)) == (1, 3)
    write(again, history.done(0, 1).session(SessionClosed()))
    look(batches)
    assert watcher.has_ended
    again.release()
    batches.close()


def test_a_long_record_is_an_overview_until_all_of_it_is_read(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "LARGE", 1000)
    monkeypatch.setattr(watch, "FIRST", 0.0)
    history = History(PLAN).training(steps=600)
    write(recorder, history)
    monkeypatch.setattr(watch, "RECORDS", 100)
    watcher = WatchedRun(recorder.folder, PLAN)
    shown, batches = watcher.state, watcher.batches()
    assert step_of(watcher) == 600
    assert watcher.news == "this is an overview; 0% of the record has been read"
    look(batches)
    assert watcher.state is shown
    assert watcher.reading is not None
    assert 0 < watcher.reading < 1
    write(recorder, history.rank(0, stepped(0, 601)))
    look(batches)
    assert watcher.state is shown
    assert step_of(watcher) == 601, "the overview goes on meanwhile"
    while watcher.reading is not None:
        look(batches)
    assert watcher.state is not shown
    assert step_of(watcher) == 601
    assert "watching beside its launcher" in watcher.news
    batches.close()


def test_a_line_without_end_is_told(recorder: Recorder) -> None:
    write(recorder, History(PLAN).training(steps=2))
    watcher = WatchedRun(recorder.folder, PLAN)
    with (recorder.folder / EVENTS).open("ab") as file:
        file.truncate(file.tell() + LIMITS.line + 1)
    assert [*watcher.batches()] == []
    assert watcher.news.endswith(f"it has a line longer than {LIMITS.line:,} bytes")
    assert step_of(watcher) == 2


def test_a_run_that_was_left_goes_on(tmp_path: Path) -> None:
    folder = recorded(tmp_path, History(PLAN).training(steps=2).session(Detached(False)))
    watcher = WatchedRun(folder, PLAN)
    assert watcher.news.startswith(
        "its launcher has left the run, which continues without a record"
    )
    assert not watcher.has_ended
    watcher.stop()
    assert [*watcher.batches()] == []


@pytest.mark.parametrize("how", ["replaced", "truncated"])
def test_a_record_that_is_replaced_is_read_anew(recorder: Recorder, how: str) -> None:
    write(recorder, History(PLAN).training(steps=5))
    watcher = WatchedRun(recorder.folder, PLAN)
    batches, path = watcher.batches(), recorder.folder / EVENTS
    if how == "replaced":
        path.unlink()
    else:
        path.write_bytes(b"")
    write(recorder, History(PLAN).training(steps=1))
    look(batches)
    assert step_of(watcher) == 1
    watcher.stop()
    assert [*batches] == []


def test_a_run_that_is_deleted_is_told(recorder: Recorder) -> None:
    write(recorder, History(PLAN).training(steps=2))
    watcher = WatchedRun(recorder.folder, PLAN)
    shutil.rmtree(recorder.folder)
    assert [*watcher.batches()] == []
    assert watcher.news == f"{recorder.folder} is gone: somebody has deleted the run"
    assert watcher.state.phase is RunPhase.TRAINING


def test_a_watcher_does_not_keep_a_launcher_out(recorder: Recorder) -> None:
    write(recorder, History(PLAN).training())
    watcher = WatchedRun(recorder.folder, PLAN)
    recorder.release()
    os.close(lock.take(recorder.folder / LOCK))
    watcher.stop()
    assert [*watcher.batches()] == []
