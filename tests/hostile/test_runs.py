"""A run directory is data: whatever is in it, it runs nothing, reaches nobody, signals nobody and
writes nowhere else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pytest

from remote.cluster.hosts import Cluster, Host, HostsError
from remote.cluster.load import load
from remote.events import ClockMeasured, Restarted
from remote.limits import LIMITS
from remote.plan.plan import Plan, PlanError, Policy
from remote.record import events_file, files, trust
from remote.record import read as reading
from remote.record.events_file import RunFolderError
from remote.record.lock import launcher
from remote.record.read import load_plan
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.transport import Channel, Transport, Unreachable
from remote.transport.failure import Failure, FailureCause
from tests.kit.commands import Done, Watched, watching
from tests.kit.foreign_runs import BEGUN, ENDED, FAILED, evil_host, foreign_run, locked, records
from tests.kit.histories import block_of, stepped
from tests.kit.launches import run as rankboard
from training.job import Job
from training.wire.events import SESSION, Record
from training.wire.host_events import Exited, Launched, OutputText
from tui.commands.attach import attach
from tui.commands.events import events
from tui.commands.logs import logs
from tui.commands.prune import prune
from tui.commands.ps import ps
from tui.commands.stop import stop
from tui.flags import which_run

COMMANDS: dict[str, tuple[Callable[..., None], dict[str, Any]]] = {
    "attach": (attach, {"as_lines": True}),
    "stop": (stop, {}),
    "logs": (logs, {}),
    "logs --follow": (logs, {"follow": True}),
    "events": (events, {}),
}
HOSTS = '[[host]]\nname = "node1"\naddress = "127.0.0.1"\ntimeout = 5\n'


class Nobody:
    """Reaches nobody, and knows who was to be reached."""

    def __init__(self) -> None:
        self.asked: list[Host] = []

    def open(self, host: Host, *_: object) -> Channel:
        self.asked.append(host)
        raise Unreachable(host.name, Failure(FailureCause.REFUSED, "nobody is there"))


@pytest.fixture
def nobody(over: Callable[[Transport], None]) -> Nobody:
    reached = Nobody()
    over(reached)  # type: ignore[arg-type]
    return reached


# Ways to hosts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a-run", "last"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_foreign_run_reaches_nobody_by_ways_of_its_own(
    command: str, name: str, run: Callable[..., Done], tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    foreign_run(tmp_path / "runs", evil_host(mark))
    function, words = COMMANDS[command]
    with patch.object(which_run, "confirm", lambda *_, **__: True):
        done = run(function, run=name, **words)
    assert not mark.exists()
    reads = command in ("logs", "logs --follow", "events")
    assert done.returncode == (3 if reads else 2)
    assert (
        "a-run: you did not record its plan.json here, so your hosts file has to say how to reach "
        "node1" in done.stderr
    )
    assert "hosts.toml: no such file" in done.stderr
    assert ("up" in done.stdout) == reads


def test_the_operators_hosts_file_says_how_to_reach_the_hosts_of_a_foreign_run(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    foreign_run(tmp_path / "runs", evil_host(tmp_path / "executed", slots=2, threads=3))
    (tmp_path / "hosts.toml").write_text(HOSTS)
    done = run(logs, run="a-run")
    assert (done.returncode, nobody.asked) == (
        3,
        [replace(Host("node1", "127.0.0.1"), timeout=5.0, slots=2, threads=3)],
    )
    (tmp_path / "hosts.toml").write_text(HOSTS.replace("node1", "node7"))
    done = run(logs, run="a-run")
    assert done.returncode == 3
    assert 'that hosts.toml does not have: node1. Add a [[host]] with name = "node1"' in done.stderr
    done = run(logs, run="a-run", hosts=tmp_path / "hosts.toml")
    assert done.returncode == 2, "a file that is named has to know the hosts"
    assert len(nobody.asked) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_an_ended_foreign_run_is_read_without_a_hosts_file_and_changes_nothing(
    command: str, run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", evil_host(tmp_path / "executed"), ENDED)
    before = (folder / "plan.json").read_bytes()
    function, words = COMMANDS[command]
    done = run(function, run="a-run", **words)
    assert done.returncode == {"attach": 130}.get(command, 0), done.stderr
    assert not nobody.asked
    assert (folder / "plan.json").read_bytes() == before
    assert not (folder / "plan.mac").exists(), "it is not ours for having been looked at"
    if command == "stop":
        assert done.stderr == "rankboard: a-run had already ended: stopped\n"


@pytest.mark.parametrize(("given", "restarts"), [(None, 0), (2, 2)])
def test_a_foreign_run_restarts_only_as_often_as_the_operator_says(
    given: int | None,
    restarts: int,
    run: Callable[..., Done],
    nobody: Nobody,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_TOKEN", "topsecret")
    foreign_run(tmp_path / "runs", evil_host(tmp_path / "executed"), FAILED)
    (tmp_path / "hosts.toml").write_text(HOSTS)
    watched = Watched()
    done = run(watching(watched, attach), run="a-run", max_restarts=given)
    (session,) = watched.sessions
    session._recorder.release()
    assert session.plan.policy.max_restarts == session.state.launcher.restarts_left == restarts
    assert not session._controller._forwarded
    assert ("a failed run is restarted only with --max-restarts N" in done.stderr) == (
        given is None
    )


def test_a_foreign_folder_that_looks_like_a_run_of_this_machine_runs_no_program_of_its_own(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", evil_host(tmp_path / "executed"))
    (folder / "node").mkdir()
    run(logs, run="a-run")
    (host,) = nobody.asked
    assert (host.python, host.workdir, host.env_from) == (sys.executable, str(folder / "node"), ())
    (folder / "node").rmdir()
    (folder / "node").symlink_to(tmp_path)
    assert "you did not record its plan.json here" in run(logs, run="a-run").stderr


def test_the_plan_of_another_run_is_refused(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    foreign_run(tmp_path / "runs", Host("node1", "x"), name="b-run").rename(
        tmp_path / "runs" / "a-run"
    )
    done = run(watching(Watched(), attach), run="a-run")
    assert (done.returncode, nobody.asked) == (2, [])
    assert "has the plan of another run, b-run" in done.stderr


def test_what_a_plan_may_decide() -> None:
    """Whatever the rest of it says."""
    host = Host(
        "node1",
        "a",
        "u",
        23,
        "i",
        "k",
        "j",
        "p",
        "py",
        "/w",
        "/c",
        2,
        3,
        "eth0",
        4,
        5.0,
        (("A", "b"),),
        ("C",),
    )
    plan = Plan(
        "a-run", (host,), Job(), Policy(True, False, 9.0, max_restarts=4, min_nodes=1), project="p"
    )
    kept = trust.harmless(plan)
    assert kept.hosts == (Host("node1", "", slots=2, threads=3, interface="eth0"),)
    assert kept.policy == Policy(keep=True, min_nodes=1)
    assert (kept.run, kept.work, kept.uploads, kept.project) == ("a-run", Job(), (), "p")
    ours = Host("node1", "b", workdir="/ours", env_from=("D",))
    placed = trust.with_ways(kept, Cluster("test", (ours, Host("node2", "c"))))
    assert placed.hosts == (replace(ours, slots=2, threads=3, interface="eth0"),)


# Signatures ---------------------------------------------------------------------------------------


def signed_run(runs: Path, mark: Path) -> tuple[Path, Plan]:
    plan = Plan("a-run", (evil_host(mark),), Job(), Policy(keep=True, max_restarts=3))
    into = Recorder(runs, plan)
    into.release()
    (into.folder / "events.jsonl").write_text(records(BEGUN))
    return into.folder, plan


def test_a_run_that_we_recorded_needs_no_hosts_file(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    folder, plan = signed_run(tmp_path / "runs", tmp_path / "mark")
    assert load_plan(folder) == plan
    run(logs, run="a-run")
    assert nobody.asked == [*plan.hosts]
    watched = Watched()
    run(watching(watched, attach), run="a-run")
    watched.sessions[0]._recorder.release()
    assert watched.sessions[0].plan == plan
    assert load_plan(folder) == plan, "also after somebody has come back to it"


@pytest.mark.parametrize("change", ["plan", "signature", "no signature", "another user's key"])
def test_a_plan_that_was_altered_is_not_ours(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, plan = signed_run(tmp_path / "runs", tmp_path / "mark")
    if change == "plan":
        path = folder / "plan.json"
        path.write_text(path.read_text().replace("203.0.113.1", "203.0.113.2"))
    elif change == "signature":
        (folder / "plan.mac").write_bytes(b"\xff" * 64)
    elif change == "no signature":
        (folder / "plan.mac").unlink()
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert load_plan(folder) == trust.harmless(plan)


def test_the_key_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    key = tmp_path / "config" / "rankboard" / "key"
    signed = trust.signature(b"plan")
    assert trust.is_signed(b"plan", signed.encode())
    assert not trust.is_signed(b"another", signed.encode())
    assert (stat.S_IMODE(key.stat().st_mode), stat.S_IMODE(key.parent.stat().st_mode)) == (
        0o600,
        0o700,
    )
    key.chmod(0o644)
    assert not trust.is_signed(b"plan", signed.encode()), "others may have read it"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.unlink()
    key.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("00" * 32)
    trust.signature(b"plan")
    assert not key.is_symlink()


def test_two_launchers_that_make_the_key_at_once_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet = Barrier(8)

    def sign(_: int) -> str:
        meet.wait()
        return trust.signature(b"plan")

    with ThreadPoolExecutor(8) as pool:
        for round in range(500):  # a mistake shows in few of them
            config_folder = tmp_path / str(round)
            monkeypatch.setenv("XDG_CONFIG_HOME", str(config_folder))
            assert len(set(pool.map(sign, range(8)))) == 1
            assert [path.name for path in (config_folder / "rankboard").iterdir()] == ["key"]


def test_a_folder_just_made_is_ours_whomever_the_disk_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    files.make_folder(tmp_path / "new")
    files.make_folder(tmp_path / "newer", exist_ok=True)
    with pytest.raises(OSError, match="belongs to another user"):
        files.make_folder(tmp_path / "new", exist_ok=True)


def test_transfers_that_make_a_folder_at_once_all_have_it(tmp_path: Path) -> None:
    meet = Barrier(8)

    def make(round: int) -> None:
        meet.wait()
        files.make_folder(tmp_path / str(round), exist_ok=True)

    with ThreadPoolExecutor(8) as pool:
        for round in range(100):
            list(pool.map(make, [round] * 8))


def test_a_disk_without_hard_links_has_a_key_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(os, "link", link)
    assert trust.is_signed(b"plan", trust.signature(b"plan").encode())
    assert [path.name for path in (tmp_path / "config" / "rankboard").iterdir()] == ["key"]


@pytest.mark.parametrize("config", ["no folder", "no home"])
def test_without_a_place_for_a_key_nothing_is_ours(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if config == "no home":
        monkeypatch.setattr(Path, "home", lambda: Path("~nobody-here").expanduser())
    else:
        (tmp_path / "config").write_text("no folder")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder, plan = signed_run(tmp_path / "runs", tmp_path / "mark")
    assert load_plan(folder) == trust.harmless(plan)
    (folder / "plan.mac").write_bytes(b"")
    assert load_plan(folder) == trust.harmless(plan)


# Links, other files, other users ------------------------------------------------------------------

LINKED = (
    "launcher.pid",
    "plan.json",
    "plan.mac",
    "events.jsonl",
    "steps.bin",
    "summary.json",
    "logs/rank-0.log",
    "summary.part",
)


@pytest.mark.parametrize("name", LINKED)
def test_no_link_is_followed(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    (folder / "logs").mkdir()
    with suppress(FileNotFoundError):
        (folder / name).unlink()
    (folder / name).symlink_to(victim)
    with suppress(PlanError, RunFolderError):
        into = Recorder(tmp_path / "runs", load_plan(folder), continues=True)
        into.text(next(record_of(OutputText(0, "stdout", "line"))))
        into.raw(records((*BEGUN, (0, block_of([stepped(0, 1)], 1000.0)))).encode())
        problem = into.flush()
        assert bool(problem) == (name in ("events.jsonl", "logs/rank-0.log"))
        into.close(RunState(load_plan(folder)))
    assert victim.read_text() == "kept"
    for look in (
        lambda: launcher(folder),
        lambda: list(events_file.read_records(folder)),
        lambda: reading.verdict(folder),
    ):
        with suppress(RunFolderError):
            look()


def record_of(text: OutputText) -> Iterator[Any]:
    yield Record(0, 0, 1, 1.0, text)


@pytest.mark.parametrize("name", ["logs", "."])
def test_no_folder_that_is_a_link_is_written_into(name: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    if name == ".":
        folder.rename(tmp_path / "elsewhere" / "a-run")
        folder.symlink_to(tmp_path / "elsewhere" / "a-run")
    else:
        (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PlanError, match="it is a link, which is not followed"):
        Recorder(tmp_path / "runs", load_plan(folder), continues=True)
    assert not list((tmp_path / "elsewhere").rglob("launcher.pid"))


def test_the_folder_of_another_user_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    monkeypatch.setattr(files.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PlanError, match="it belongs to another user"):
        Recorder(tmp_path / "runs", load_plan(folder), continues=True)
    assert not (folder / "launcher.pid").exists()


@pytest.mark.parametrize(
    "name", ["plan.json", "events.jsonl", "steps.bin", "launcher.pid", "summary.json", "plan.mac"]
)
def test_a_pipe_is_not_waited_for(
    name: str, run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"), ENDED)
    with suppress(FileNotFoundError):
        (folder / name).unlink()
    os.mkfifo(folder / name)
    done = run(logs, run="a-run")
    assert done.returncode == (2 if name in ("plan.json", "events.jsonl") else 0)
    assert "Traceback" not in done.stderr
    assert run(ps).returncode == 0
    assert run(prune, older_than="0").returncode == 0


def test_the_folder_of_all_runs_is_the_users_own(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        runs_dir = tmp_path / "new" / "runs"
        Recorder(runs_dir, Plan("a-run", (Host("node1", "x"),), Job())).release()
    finally:
        os.umask(before)
    for path in tmp_path.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


# Its launcher -------------------------------------------------------------------------------------


@contextmanager
def bystander() -> Iterator[int]:
    """A process of this user that has nothing to do with it."""
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", "rankboard"]
    ) as process:
        yield process.pid
        alive = process.poll() is None
        process.kill()
    assert alive, "it was signalled"


@pytest.mark.parametrize(
    "text",
    ["garbage", "", "-1", "0", "1", "99999999999999999999", "-1 here", "\x1b[2J", "\xb2", "4 5 6"],
)
def test_a_launcher_that_the_file_does_not_name_is_not_signalled(
    text: str, run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    with locked(folder, text):
        for command in (watching(Watched(), stop), watching(Watched(), attach)):
            done = run(command, run="a-run")
            assert done.returncode == 2
            assert done.stderr.count("\n") == 1
            assert "\x1b" not in done.stderr
        assert run(ps).returncode == 0
        assert "nothing to remove" in run(prune, older_than="0").stderr
    assert not nobody.asked


def test_a_process_that_does_not_record_the_run_is_not_signalled(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    with bystander() as pid, locked(folder, f"{pid}"):
        done = run(watching(Watched(), stop), run="a-run")
        assert done.returncode == 2
        assert (
            f"names process {pid}, which is not your rankboard that records this run: nothing is "
            "signalled" in done.stderr
        )


def test_who_holds_the_lock_but_is_no_rankboard_is_not_signalled(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    holds = (
        f"import fcntl; f = open({str(folder / 'launcher.pid')!r}, 'w'); fcntl.flock(f, "
        "fcntl.LOCK_EX); print(flush=True)"
    )
    words = [
        sys.executable,
        "-c",
        f"{holds}\nimport os; f.write(str(os.getpid())); f.flush(); import time; time.sleep(600)",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        done = run(watching(Watched(), stop), run="a-run")
        assert process.poll() is None
        process.kill()
    assert done.returncode == 2


# Records ------------------------------------------------------------------------------------------

STRANGE = (
    (99, Exited(0, 0)),
    (-2, OutputText(0, "stdout", "nobody's")),
    (SESSION, ClockMeasured(99, 1.0)),
    (SESSION, ClockMeasured(-7, 1.0)),
    (SESSION, Restarted((0, 99), "why")),
    (SESSION, Restarted((-1,), "why")),
    (0, Launched((0,), (99,))),
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "events", [[one] for one in STRANGE] + [[*STRANGE]], ids=lambda events: str(len(events))
)
def test_records_of_hosts_that_the_run_does_not_have_are_left_out(
    command: str, events: list[Any], run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    foreign_run(
        tmp_path / "runs", evil_host(tmp_path / "executed"), (*ENDED[:-1], *events, ENDED[-1])
    )
    function, words = COMMANDS[command]
    done = run(function, run="a-run", **words)
    assert done.returncode == {"attach": 130}.get(command, 0), done.stderr
    said = (
        f"events.jsonl: {len(events)} records were left out: they name hosts that the run does "
        "not have"
    )
    assert done.stderr.count(said) == 1
    assert "nobody's" not in done.stdout


def test_garbage_among_the_records_is_left_out(tmp_path: Path) -> None:
    garbage = (
        '\n{"host":0}\n[[[[\n\0\xff\n{"event":"said"}\n'
        + "[" * 100_000
        + "\n"
        + "9" * 10_000
        + "\n{"
    )
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"), lines=garbage)
    assert len(list(events_file.read_records(folder, 1))) == len(BEGUN)


# Bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan.json", "summary.json", "plan.mac", "launcher.pid"])
def test_a_file_is_read_up_to_a_limit(name: str, tmp_path: Path) -> None:
    folder = foreign_run(tmp_path / "runs", Host("node1", "x"))
    with (folder / name).open("wb") as file:
        file.truncate(1 << 40)
    tracemalloc.start()
    with suppress(RunFolderError):
        load_plan(folder)
    assert reading.verdict(folder) == ""
    assert launcher(folder) is None
    assert tracemalloc.get_traced_memory()[1] < 3 * LIMITS.summary
    tracemalloc.stop()


def test_a_line_without_end_is_left_out(tmp_path: Path) -> None:
    folder = foreign_run(
        tmp_path / "runs",
        Host("node1", "x"),
        lines=" " * 9 + "x" * (9 << 20) + "\n" + records(BEGUN),
    )
    tracemalloc.start()
    found = list(events_file.read_records(folder, 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 2 * len(BEGUN)
    assert peak < 3 * LIMITS.line


NUMBERS: list[tuple[dict[str, Any], str]] = [
    (
        {"hosts": [{"name": "a", "address": "b", "slots": 10**9}]},
        "slots = 1000000000: write a whole number from 1 to 4096",
    ),
    ({"hosts": [{"name": "a", "address": "b", "slots": -1}]}, "slots = -1"),
    ({"hosts": [{"name": "a", "address": "b", "threads": 4097}]}, "threads = 4097"),
    (
        {"hosts": [{"name": "a", "address": "b", "timeout": 1e999}]},
        "timeout = inf: write a finite number of seconds",
    ),
    ({"hosts": [{"name": "a", "address": "b", "timeout": float("nan")}]}, "timeout = nan"),
    ({"hosts": [{"name": "a", "address": "b", "port": 0}]}, "port = 0"),
    (
        {"hosts": [{"name": f"h{i}", "address": "b"} for i in range(4_097)]},
        "the run has 4097 hosts: 4096 at most",
    ),
    (
        {"hosts": [{"name": f"h{i}", "address": "b", "slots": 4096} for i in range(9)]},
        "the run has 36864 ranks: 4096 at most",
    ),
    ({"hosts": [{"name": "a", "address": "b"}] * 2}, "it has a host twice"),
    (
        {"hosts": [{"name": "a\x1b]52;c;x\x07", "address": "b"}]},
        "it has U+001B, which cannot be seen: write plain text",
    ),
    (
        {"hosts": [{"name": "a", "address": "\x1b]52;c;x\x07"}]},
        "it has U+001B, which cannot be seen: write plain text",
    ),
    ({"policy": {"max_restarts": 10**23}}, "is not a plan"),
    (
        {"policy": {"max_restarts": 10**15}},
        "--max-restarts 1000000000000000: give a number from 0 to 10000",
    ),
    ({"policy": {"start_timeout": 1e999}}, "--start-timeout inf: give a finite number of seconds"),
    ({"policy": {"min_nodes": -1}}, "--min-hosts -1: give a number from 0 to 4096"),
]


@pytest.mark.parametrize(("more", "mistake"), NUMBERS, ids=lambda value: str(value)[:40])
def test_numbers_beyond_bounds_are_no_plan(
    more: dict[str, Any], mistake: str, run: Callable[..., Done], tmp_path: Path
) -> None:
    foreign_run(tmp_path / "runs", Host("node1", "x"), more=more)
    for function, words in COMMANDS.values():
        done = run(function, run="a-run", **words)
        assert done.returncode == 2
        assert mistake in done.stderr
        assert not set(done.stderr) & {"\x1b", "\x07"}


@pytest.mark.parametrize(
    "line", ["slots = 1000000000", "threads = 9223372036854775808", "slots = 0", "timeout = inf"]
)
def test_numbers_beyond_bounds_are_mistakes_in_a_hosts_file(line: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(HOSTS.replace("timeout = 5", line))
    with pytest.raises(
        HostsError, match=rf"host 1 \(node1\): {line.split()[0]} = .* is wrong: write a"
    ):
        load(tmp_path / "hosts.toml")


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"start_timeout": float("nan")}, "--start-timeout nan: give a finite number of seconds"),
        ({"start_timeout": -1.0}, "--start-timeout -1.0: give a finite number of seconds"),
        ({"max_restarts": int("9" * 23)}, "--max-restarts 9+: give a number from 0 to 10000"),
        ({"min_nodes": int("9" * 23)}, "--min-hosts 9+: give a number from 0 to 4096"),
    ],
)
def test_numbers_beyond_bounds_are_no_policy(settings: dict[str, Any], mistake: str) -> None:
    with pytest.raises(PlanError, match=mistake):
        Policy(**settings)


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (
            ["--local", "1", "--start-timeout", "inf"],
            "--start-timeout inf: give a finite number of seconds",
        ),
        (["--local", "1000000000"], "slots = 1000000000: write a whole number from 1 to 4096"),
    ],
)
def test_numbers_beyond_bounds_are_mistakes_in_flags(
    words: list[str], mistake: str, tmp_path: Path
) -> None:
    done = rankboard(tmp_path, "--dry-run", *words)
    assert done.returncode == 2
    assert mistake in done.stderr
    assert not list(tmp_path.iterdir())


def test_many_ranks_take_little_memory_before_they_say_anything() -> None:
    tracemalloc.start()
    RunState(Plan("a-run", (Host("node1", "x", slots=4096),), Job()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_words_of_a_plan_reach_no_terminal_as_they_are(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    evil = "\x1b]52;c;evil\x07"
    job = {"job": {"data_dir": evil, "dataset": f"imagefolder:/{evil}", "resume": evil}}
    uploads = [{"source": evil, "target": evil}]
    foreign_run(
        tmp_path / "runs",
        Host("node1", "x"),
        ENDED,
        more={"work": job, "uploads": uploads, "project": "p"},
    )
    for function, words in COMMANDS.values():
        done = run(function, run="a-run", **words)
        assert not set(done.stderr + done.stdout) & {"\x1b", "\x07"}


# Names of runs ------------------------------------------------------------------------------------


def test_the_last_run_is_the_newest_that_has_begun(
    run: Callable[..., Done], nobody: Nobody, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    for name, happened in (("1-old", ENDED), ("2-ended", ENDED), ("3-refused", ())):
        foreign_run(runs, Host("node1", "x"), happened, name)
    said = ", not started here, its end is not recorded here\n"
    assert run(logs, run="last").stderr == f"rankboard: last is 2-ended{said}"
    starting = foreign_run(runs, Host("node1", "x"), (), "4-starting")
    with locked(starting, "7 elsewhere"):
        done = run(watching(Watched(), stop), run="last")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "rankboard: last is a run that was not started here:\nrankboard:   rankboard stop "
        "4-starting  (not started here, live: its launcher is process 7 on elsewhere)\n"
    )
    with locked(starting, "7 elsewhere"):
        done = run(watching(Watched(), stop), run="4-starting")
    assert done.stderr == (
        "rankboard: 4-starting: its launcher is elsewhere's process 7: stop it there\n"
    )
    (runs / "2-ended" / "summary.json").write_text('{"verdict": "stopped"}')
    done = run(watching(Watched(), stop), run="last")
    assert done.stderr == (
        "rankboard: last is 2-ended, not started here, recorded here as stopped\n"
        "rankboard: 2-ended had already ended: stopped\n"
    )
    assert done.returncode == 0


def test_of_many_runs_that_begin_so_the_newest_are_named(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    for number in range(14):
        foreign_run(tmp_path / "runs", Host("node1", "x"), (), f"2026-{number:02}")
    done = run(logs, run="2026")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0] == "rankboard: 2026: 14 runs begin so; write more of the name:"
    assert lines[1:] == [
        *(f"rankboard:   2026-{number}" for number in ("13", "12", "11", "10", "09")),
        lines[-1],
    ]
    assert lines[-1] == "rankboard:   and 9 more; rankboard ps lists them"
