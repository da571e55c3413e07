"""Snapshots of a run: a reader that goes on from one comes to the state of all records, and one
that cannot be trusted is as if it were not there."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from remote.events import ClockMeasured, RemarkMade, Restarted, SessionClosed
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan, Policy
from remote.record import snapshots
from remote.record.layout import EVENTS, SNAPSHOTS
from remote.record.snapshots import find_newest
from remote.record.tape import Tape
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.series.definitions import SERIES
from remote.transport.registry import Transports
from tests.kit.histories import History, block_of, plan, stepped
from tests.kit.recorded import record, recorded
from tests.kit.stage import Stage, ended, finishes
from tests.kit.wait import looks
from training.wire.enums import EndReason
from training.wire.events import encode
from training.wire.host_events import AgentEnded, Exited, HostSample, OutputText, RankSample
from training.wire.rank_events import Evaluated, Saved

END = float("inf")
SEEDS = range(6)


@pytest.fixture(autouse=True)
def small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of any length have snapshots."""
    monkeypatch.setattr(snapshots, "APART", 1)
    monkeypatch.setattr(snapshots, "PAUSE", 0.0)
    monkeypatch.setattr(snapshots, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(snapshots, "SPREAD", 1)


def draw(seed: int, *, script: bool) -> History:
    """A run in which anything may happen, in any order."""
    random = Random(seed)
    history = History(plan(2, 2, script=script)).training(2, 2_000)
    steps = [2] * 4
    for _ in range(150):
        rank = random.randrange(4)
        count = random.randrange(1, 30)
        match random.randrange(10):
            case 0 | 1 | 2 | 3:
                new_steps = [stepped(rank, steps[rank] + number) for number in range(1, count + 1)]
                history.rank(rank, block_of(new_steps, history.now, 0.001))
                steps[rank] += count
            case 4:
                text = f"step {steps[rank]} loss {random.random():.3f}\nlr 0.1, half a"
                history.rank(rank, OutputText(rank, "stdout", text))
            case 5:
                history.rank(rank, RankSample(rank, 90.0, 1 << 20), HostSample((1.0, 2.0), 3, 4))
            case 6:
                history.rank(rank, Evaluated(rank, 1, steps[rank], 0.5, 0.7, 9, 1.0))
            case 7:
                history.rank(rank, Saved(rank, 1, steps[rank], 0.1, 100))
            case 8:
                history.session(ClockMeasured(rank % 2, random.random()), RemarkMade(0, "hm"))
            case _:
                history.rank(rank, OutputText(rank, "stderr", "Traceback: \x1b[31mno\nno"))
    if random.random() < 0.5:
        history.rank(1, Exited(1, 1))
        history.attempt = 1
        history.session(Restarted((0, 1), "once more")).training(20, 2_000)
    if random.random() < 0.7:
        history.done(0, 1, 2, 3).ended()
    return history


COMPUTED = {"_means", "_loss"}
"""What a pace computes only once somebody asks."""
PLAIN = (Plan, Policy, str, int, bytes, type, type(None))


def contents(value: Any, around: tuple[int, ...] = ()) -> Any:
    """All that an object holds, to be compared. `around`: the objects that hold it."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, float):
        return repr(value)  # in which NaN is NaN
    if isinstance(value, np.ndarray | array):
        return repr(value.tolist())
    if id(value) in around:
        return f"what is {len(around) - around.index(id(value))} further up"
    around = (*around, id(value))
    if isinstance(value, RunState):
        for series in SERIES:
            value.curves.whole(series)  # which makes arrays of its points
    if isinstance(value, dict):
        return {repr(key): contents(item, around) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple | deque):
        return [contents(item, around) for item in value]
    return type(value).__name__, fields_of(value, around)


def fields_of(value: Any, around: tuple[int, ...]) -> Any:
    names = [*getattr(value, "__dict__", {}), *getattr(value, "__struct_fields__", ())]
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return {
        name: contents(getattr(value, name), around)
        for name in dict.fromkeys(names)
        if hasattr(value, name) and not name.startswith("__") and name not in COMPUTED
    }


def replayed(folder: Path, of: Plan) -> RunState:
    """The state of all records, whatever snapshots there are."""
    hidden = folder / "hidden"
    has_snapshots = (folder / SNAPSHOTS).is_dir()
    if has_snapshots:
        (folder / SNAPSHOTS).rename(hidden)
    state = read(folder, of)
    if has_snapshots:
        hidden.rename(folder / SNAPSHOTS)
    return state


def read(folder: Path, of: Plan) -> RunState:
    tape = Tape(folder, of, rewinds=False)
    assert not tape.advance(END, 10**9)
    tape.close()
    return tape.state


def record_with_snapshots(
    runs_dir: Path, history: History, random: Random, *, waits: bool = False
) -> Path:
    """Record a run as a session does, with snapshots now and then. `waits`: none is left out as the
    one before is still being written."""

    def keeps_snapshot() -> bool:
        if waits:
            await_snapshot()
        return random.random() < 0.1

    into, state = Recorder(runs_dir, history.plan), RunState(history.plan)
    record(into, history, state, keeps_snapshot)
    into.release()
    await_snapshot()
    return into.folder


def await_snapshot() -> None:
    """Wait until the snapshot is written that was begun."""
    for thread in threading.enumerate():
        if thread.name == "snapshot":
            thread.join()


def saved(runs_dir: Path, history: History | None = None) -> tuple[Path, Plan]:
    """A recorded run with a snapshot amid its record."""
    made = history or History(plan(2)).training(50)
    folder = recorded(runs_dir, made)
    tape = Tape(folder, made.plan, rewinds=False)
    assert tape.advance(END, 40)
    tape.save()
    tape.close()
    return folder, made.plan


def snapshot_of(folder: Path) -> Path:
    (path,) = (folder / SNAPSHOTS).iterdir()
    return path


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("script", [False, True])
def test_a_reader_that_goes_on_from_a_snapshot_comes_to_the_state_of_all_records(
    tmp_path: Path, seed: int, script: bool
) -> None:
    history = draw(seed, script=script)
    folder = record_with_snapshots(tmp_path, history, Random(seed))
    whole = contents(replayed(folder, history.plan))
    for path in sorted((folder / SNAPSHOTS).iterdir(), key=lambda path: -int(path.name)):
        moment = find_newest(folder, history.plan)
        assert moment is not None
        assert moment.offset == int(path.name)
        assert contents(read(folder, history.plan)) == whole
        path.unlink()
    assert find_newest(folder, history.plan) is None


def test_a_snapshot_belongs_to_the_plan_of_its_reader(tmp_path: Path) -> None:
    folder, of = saved(tmp_path)
    hosts = tuple(replace(host, address="10.0.0.9", user="me") for host in of.hosts)
    another = replace(of, hosts=hosts, policy=replace(of.policy, max_restarts=7))
    moment = find_newest(folder, another)
    assert moment is not None
    assert moment.state.plan is another
    assert moment.state.judge.plan is another
    assert moment.state.launcher.policy is another.policy
    assert contents(read(folder, another)) == contents(replayed(folder, another))


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path, pytest.MonkeyPatch], object]:
    def apply(folder: Path, _: pytest.MonkeyPatch) -> None:
        path = snapshot_of(folder)
        path.write_bytes(change(path.read_bytes()))

    return apply


def flipped(place: int) -> Callable[[Path, pytest.MonkeyPatch], object]:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[place] ^= 1
        return bytes(changed)

    return rewritten(flip)


def renamed(folder: Path, _: pytest.MonkeyPatch) -> None:
    """Another place of the record, where a line begins as well."""
    path = snapshot_of(folder)
    first_line = (folder / EVENTS).read_bytes().index(b"\n") + 1
    header = path.read_bytes().replace(
        b'"offset":' + path.name.encode(), b'"offset":%d' % first_line
    )
    path.write_bytes(header)


def of_another_version(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_digest_code", lambda: "another")


def of_changed_code(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the code are newer than this process."""
    monkeypatch.setattr(snapshots, "_digest_code", snapshots._digest_code.__wrapped__)
    monkeypatch.setattr(snapshots, "_LOADED_AT", 0.0)


def of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))


def with_truncated_record(folder: Path, _: pytest.MonkeyPatch) -> None:
    os.truncate(folder / EVENTS, int(snapshot_of(folder).name) - 1)


def with_replaced_record(folder: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / EVENTS, folder / "copy")
    (folder / "copy").rename(folder / EVENTS)


def with_changed_record(folder: Path, _: pytest.MonkeyPatch) -> None:
    place = int(snapshot_of(folder).name) - 3
    with (folder / EVENTS).open("r+b") as file:
        file.seek(place)
        file.write(b"x")


def behind_a_link(folder: Path, _: pytest.MonkeyPatch) -> None:
    path = snapshot_of(folder)
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


def in_a_linked_folder(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / SNAPSHOTS).rename(folder / "elsewhere")
    (folder / SNAPSHOTS).symlink_to(folder / "elsewhere")


@pytest.mark.parametrize(
    "spoil",
    [
        *(flipped(place) for place in (0, 70, -1)),
        *(rewritten(change) for change in (lambda _: b"", lambda data: data[:100])),
        rewritten(lambda data: data[:-1]),
        renamed,
        of_another_version,
        of_changed_code,
        of_another_user,
        with_truncated_record,
        with_replaced_record,
        with_changed_record,
        behind_a_link,
        in_a_linked_folder,
    ],
)
def test_a_snapshot_that_cannot_be_trusted_is_not_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path, pytest.MonkeyPatch], object],
) -> None:
    folder, of = saved(tmp_path)
    assert find_newest(folder, of) is not None
    spoil(folder, monkeypatch)
    monkeypatch.setattr(snapshots, "thaw", None)  # not even tried
    assert find_newest(folder, of) is None
    tape = Tape(folder, of)
    assert tape.share == 0.0
    tape.close()
    assert contents(read(folder, of)) == contents(replayed(folder, of))


@pytest.mark.parametrize(
    "change",
    [
        lambda of: replace(of, policy=replace(of.policy, keep=True)),
        lambda of: replace(of, work=replace(of.job, batch_size=7)),
        lambda of: replace(of, hosts=of.hosts[:1]),
        lambda of: replace(of, run="another"),
    ],
)
def test_a_snapshot_of_another_plan_is_not_loaded(
    tmp_path: Path, change: Callable[[Plan], Plan]
) -> None:
    folder, of = saved(tmp_path)
    assert find_newest(folder, change(of)) is None


class Bomb:
    """Does harm when it is loaded."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("signature", [b"", b"0" * 64, "of the plan"])
def test_what_somebody_else_has_pickled_is_never_loaded(
    tmp_path: Path, signature: bytes | str
) -> None:
    folder, of = saved(tmp_path)
    path = snapshot_of(folder)
    data = snapshots.compress(pickle.dumps(Bomb(tmp_path / "harm")))
    header = msgspec.json.decode(path.read_bytes().split(b"\n")[1])
    header |= {"size": len(data), "digest": hashlib.sha256(data).hexdigest()}
    if isinstance(signature, str):
        signature = (folder / "plan.mac").read_bytes()
    path.write_bytes(b"\n".join((signature, msgspec.json.encode(header), data)))
    assert find_newest(folder, of) is None
    read(folder, of)
    assert not (tmp_path / "harm").exists()


def test_deleting_snapshots_does_no_harm(tmp_path: Path) -> None:
    folder, of = saved(tmp_path)
    whole = contents(read(folder, of))
    shutil.rmtree(folder / SNAPSHOTS)
    assert contents(read(folder, of)) == whole


def test_what_comes_after_a_snapshot_is_read(tmp_path: Path) -> None:
    history = History(plan(2)).training(50)
    folder, of = saved(tmp_path, history)
    known = len(history.records)
    again = Recorder(tmp_path, of, continues=True)
    for one in history.training(60).done(0, 1).records[known:]:
        again.raw(encode(one).encode())
    again.write(History(of).session(SessionClosed()).records[0])
    again.flush()
    again.release()
    assert read(folder, of).step == 60
    assert contents(read(folder, of)) == contents(replayed(folder, of))


def test_the_folder_of_another_user_gets_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = History(plan(2)).training(50)
    folder = recorded(tmp_path, made)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    tape = Tape(folder, made.plan)
    tape.advance(END, 10**9)
    tape.save()
    tape.close()
    assert not (folder / SNAPSHOTS).exists()


def test_a_disk_that_is_full_costs_the_snapshot_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshots, "write_whole", fails)
    made = History(plan(2)).training(50)
    folder = record_with_snapshots(tmp_path, made, Random(0))
    assert [*(folder / SNAPSHOTS).iterdir()] == []
    assert read(folder, made.plan).step == 50


def test_a_state_that_cannot_be_pickled_costs_the_snapshot_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = History(plan(2)).training(50)
    into = Recorder(tmp_path, made.plan)
    state = made.state()
    state.rendezvous = lambda: None  # type: ignore[assignment]
    into.raw(b"{}\n")
    into.flush()
    for _ in range(3):
        into.keep_snapshot(state, expander(made.plan))
    assert not (into.folder / SNAPSHOTS).exists()
    into.release()


def test_a_record_with_gaps_gets_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state then has what the record lacks."""
    made = History(plan(2)).training(50)
    into = Recorder(tmp_path, made.plan)
    into.raw(b"{}\n")
    into.flush()
    (into.folder / EVENTS).rename(into.folder / "moved")
    (into.folder / EVENTS).mkdir()
    into.raw(b"{}\n")
    assert "its record has gaps" in into.flush()
    (into.folder / EVENTS).rmdir()
    (into.folder / "moved").rename(into.folder / EVENTS)
    into.keep_snapshot(made.state(), expander(made.plan))
    into.close(made.state(), expander(made.plan))
    assert not (into.folder / SNAPSHOTS).exists()


def test_the_snapshots_that_stay_are_spread_over_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "KEPT", 8)
    made = History(plan(2)).training(400)
    folder = recorded(tmp_path, made)
    tape = Tape(folder, made.plan, rewinds=False)
    while tape.advance(END, 20):
        tape.save()
    tape.save()
    tape.close()
    size = (folder / EVENTS).stat().st_size
    offsets = sorted(int(path.name) for path in (folder / SNAPSHOTS).iterdir())
    assert len(offsets) == 8
    assert offsets[-1] == size
    gaps = np.diff([0, *offsets])
    assert gaps.max() < size / 2.5
    # A replay that jumps back goes on from the nearest one.
    played = Tape(folder, made.plan)
    for target in made.records[50::97]:
        played.rewind(target.time)
        begin = played.share * size
        assert begin == max([0, *(offset for offset in offsets if offset <= begin)])
        assert not played.advance(target.time, 10**9)
        expected = History(made.plan)
        expected.records = [one for one in made.records if one.time <= target.time]
        assert contents(played.state) == contents(expected.state())
    played.close()


def test_two_snapshots_of_a_record_that_is_not_long_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SPREAD", 1 << 20)
    folder = record_with_snapshots(tmp_path, History(plan(2)).training(100), Random(0), waits=True)
    assert len([*(folder / SNAPSHOTS).iterdir()]) == 2


def test_a_session_keeps_a_snapshot_of_its_end(tmp_path: Path) -> None:
    stage = Stage(finishes, finishes)
    session = stage.session(tmp_path)
    ended(session)
    folder = tmp_path / "a-run"
    moment = find_newest(folder, session.plan)
    assert moment is not None
    assert moment.offset == (folder / EVENTS).stat().st_size
    assert contents(moment.state) == contents(replayed(folder, session.plan))


def test_a_session_that_returns_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    folder, of = saved(tmp_path, History(plan(2)).session(ClockMeasured(1, 5.0)).training(50))
    whole = contents(replayed(folder, of))
    launcher = Launcher(Transports(), tmp_path)
    session = launcher.attach(KeptPlan(of, {}))
    assert session.state is session._controller.ledger.state
    assert contents(session.state) == whole
    assert [clock.offset for clock in session._controller._intake._clocks] == [0.0, 5.0]
    session._recorder.release()
    assert contents(launcher.read_state(of)) == whole


def test_who_comes_to_a_run_that_has_ended_keeps_a_snapshot(tmp_path: Path) -> None:
    history = History(plan(2)).training(50).done(0, 1)
    for host in (0, 1):
        history.say(host, AgentEnded(EndReason.CLOSED))
    folder = recorded(tmp_path, history.ended())
    launcher = Launcher(Transports(), tmp_path)
    for read_run in (
        lambda: [*launcher.attach(KeptPlan(history.plan, {})).batches()],
        lambda: launcher.read_state(history.plan),
    ):
        assert not (folder / SNAPSHOTS).exists()
        read_run()
        written_at = snapshot_of(folder).stat().st_mtime_ns
        read_run()
        assert snapshot_of(folder).stat().st_mtime_ns == written_at, "it is there already"
        assert contents(read(folder, history.plan)) == contents(replayed(folder, history.plan))
        shutil.rmtree(folder / SNAPSHOTS)


@pytest.mark.parametrize("has_launcher", [False, True])
def test_whoever_has_read_a_long_record_keeps_a_snapshot_unless_a_launcher_does(
    tmp_path: Path, has_launcher: bool
) -> None:
    made = History(plan(2)).training(50)
    folder = recorded(tmp_path, made)
    launcher = Recorder(tmp_path, made.plan, continues=True) if has_launcher else None
    watcher = WatchedRun(folder, made.plan)
    watcher.stop()
    assert [*watcher.batches()] == []
    assert (find_newest(folder, made.plan) is None) is has_launcher
    if launcher:
        launcher.release()
    else:
        again = WatchedRun(folder, made.plan)
        assert contents(again.state) == contents(watcher.state)
        again.stop()
        assert [*again.batches()] == []


WRITER = """
import sys
import time
from pathlib import Path
from random import Random
from remote.record import snapshots
from tests.unit.remote.record.test_snapshots import draw, record_with_snapshots

snapshots.APART = 1
snapshots.PAUSE = snapshots.FIRST_PAUSE = 0.0


class SlowRandom(Random):
    def random(self):
        time.sleep(0.02)
        return super().random()


record_with_snapshots(Path(sys.argv[1]), draw(0, script=False), SlowRandom(0))
"""
"""Records a run for some seconds."""


def test_a_launcher_that_is_killed_loses_nothing_by_a_snapshot(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command) as writer:
        folder = tmp_path / plan(2, 2).run / SNAPSHOTS
        for _ in looks("some snapshots"):
            if folder.is_dir() and len([*folder.iterdir()]) > 1:
                break
            assert writer.poll() is None, "it was not killed in time"
        writer.send_signal(signal.SIGKILL)
    of = plan(2, 2)
    assert find_newest(folder.parent, of) is not None
    assert contents(read(folder.parent, of)) == contents(replayed(folder.parent, of))
