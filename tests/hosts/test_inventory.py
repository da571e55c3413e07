"""What a host tells of its runs: whether they live, what became of them, how far they are, and what
a launcher kept there."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agents import Host, hosting, python
from tests.kit.wait import wait
from training.agent import server
from training.agent.host.system import LINUX
from training.agent.host_commands import journal_summary, run_folders
from training.agent.host_commands.journal_summary import JournalSummary
from training.agent.host_commands.removal import hold_lock
from training.agent.journal import Journal
from training.agent.layout import CODE
from training.agent.server import keep_file
from training.wire.commands import Keep
from training.wire.enums import EndReason
from training.wire.events import PREFIX, Event, Record
from training.wire.host_events import (
    AgentEnded,
    Exited,
    Hello,
    HostSample,
    Launched,
    OutputText,
    Spawned,
    StopHeard,
)
from training.wire.host_replies import STILL, CodeArchive, RunFolder
from training.wire.rank_events import StepFinished
from training.wire.step_block import decode_rows, encode_row, pack_rows

SLEEP = "import time; print('up'); time.sleep(600)"
HELLO = Hello("somewhere", "ada", 1, "3.11.2", "python3", "Linux", "another boot", 2.0, 1 << 30)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with hosting(tmp_path / "runs" / "a-run" / "3") as host:
        yield host


def listed(workdir: Path) -> list[RunFolder]:
    found = [
        run_folders.examine(str(workdir), run, index)
        for run, index in run_folders.list_run_folders(str(workdir))
    ]
    told = [json.loads(json.dumps(one, default=str)) for one in run_folders.runs(str(workdir))]
    assert [one["run"] for one in told if one["kind"] == "runfolder"] == [one.run for one in found]
    return found


@pytest.mark.skipif(not LINUX, reason="the proof that nothing is left needs /proc")
def test_a_run_is_live_until_its_guard_is_gone(host: Host, tmp_path: Path) -> None:
    line = host.follow()
    plan = '{"format": 1, "hosts": [{"slots": 2}, {"slots": 3}]}'
    line.send(Keep("plan.json", plan))
    step = PREFIX + '{"event":"step","rank":1,"epoch":1,"step":7,"loss":1.0,"seconds":0.1}'
    line.start(python(SLEEP), python(f"print({step!r}); import time; time.sleep(600)", 1))
    line.wait_for_text("up")
    line.wait_for_text("step", 1)
    (found,) = listed(tmp_path)
    assert (found.run, found.host, found.live, found.ranks, found.step) == (
        "a-run",
        3,
        True,
        (0, 1),
        7,
    )
    assert (found.phase, found.here, found.exits) == ("training", True, ())
    assert (found.planned, found.hosts, found.world_size) == (True, 2, 5)
    assert found.began <= found.last <= found.now
    assert found.size >= 1 << 20, "the reserve counts"
    line.close()
    wait(lambda: not listed(tmp_path)[0].live, "the guard is gone")
    (found,) = listed(tmp_path)
    assert (found.phase, found.ended, {exit.rank for exit in found.exits}) == (
        "stopped",
        AgentEnded(EndReason.CLOSED),
        {0, 1},
    )
    (kept,) = run_folders.plan(str(tmp_path), "a-run")
    assert (kept["run"], kept["plan"]) == ("a-run", plan)
    assert found.last <= kept["now"] <= time.time()
    assert list(run_folders.plan(str(tmp_path), "another-run")) == []


@pytest.mark.skipif(not LINUX, reason="the proof that nothing is left needs /proc")
def test_the_agent_keeps_files_of_plain_names_only(host: Host, tmp_path: Path) -> None:
    line = host.follow()
    names = (
        "../up",
        "/tmp/x",
        "",
        ".",
        "..",
        "lock",
        "000000000001.journal",
        "agent.sock",
        "checkpoints",
        "a\nb",
        ".part",
    )
    line.send(
        *(Keep(name, "bad") for name in names), Keep("plan.json", "first"), Keep("plan.json", "ä")
    )
    wait(
        lambda: (
            (host.folder / "plan.json").exists() and (host.folder / "plan.json").read_text() == "ä"
        ),
        "it is kept",
    )
    wait(
        lambda: line.text(-1, "stderr").count("is not kept: give a plain file name") == len(names),
        "all are refused",
    )
    assert (host.folder / "plan.json").stat().st_mode & 0o777 == 0o600
    assert (host.folder / CODE).read_text() == str(Path(server.__file__).parents[2])
    assert not list(tmp_path.rglob("*.part"))
    assert not (tmp_path / "runs" / "a-run" / "up").exists()
    line.close()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert keep_file("plan.json", "old") == ""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    assert keep_file("plan.json", "new") == "plan.json is not kept: No space left on device"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(not LINUX, reason="the host's agent is looked after in /proc")
def test_live_runs_are_told_alone_and_without_their_size(host: Host, tmp_path: Path) -> None:
    """Also one that another machine, which shares the folder, may be at work in."""
    line = host.follow()
    line.start(python(SLEEP))
    line.wait_for_text("up")
    for name, events in (("ended", [Launched((0,)), AgentEnded(EndReason.CLOSED)]), ("shared", [])):
        folder = tmp_path / "runs" / name / "0"
        folder.mkdir(parents=True)
        Journal(str(folder), 0).write(0, [HELLO, *events])
    answers = list(run_folders.live(str(tmp_path)))
    assert [(one["run"], one["live"], one.get("size", 0)) for one in answers] == [
        ("a-run", True, 0),
        ("shared", True, 0),
    ]
    hour_ago = time.time() - STILL - 60
    for path in (tmp_path / "runs" / "shared" / "0").iterdir():
        os.utime(path, (hour_ago, hour_ago))
    assert [one["run"] for one in run_folders.live(str(tmp_path))] == ["a-run"]
    line.kill()
    host.wait_until_empty()


def exited(*codes: int, stopped: bool = False) -> list[Event]:
    return [Exited(rank, code, stopped=stopped) for rank, code in enumerate(codes)]


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ([Launched((0, 1)), *exited(0, 0), AgentEnded(EndReason.CLOSED)], "finished"),
        ([Launched((0, 1)), *exited(0, 1), AgentEnded(EndReason.CLOSED)], "failed"),
        (
            [
                Launched((0, 1)),
                Exited(0, 1),
                Exited(1, -15, "SIGTERM", stopped=True),
                AgentEnded(EndReason.CLOSED),
            ],
            "failed",
        ),
        (
            [Launched((0, 1)), *exited(-15, -15, stopped=True), AgentEnded(EndReason.CLOSED)],
            "stopped",
        ),
        ([Launched((0,)), AgentEnded(EndReason.OPERATOR_GONE)], "stopped"),
        (
            [Launched((0,)), *exited(1), Launched((0,)), *exited(0), AgentEnded(EndReason.CLOSED)],
            "finished",
        ),
        ([Launched((0,)), *exited(0), AgentEnded(EndReason.AGENT_DIED, "SIGKILL")], "lost"),
        ([Launched((0,)), Spawned(0, 7)], "lost"),
        ([AgentEnded(EndReason.CLOSED)], "refused"),
        ([StopHeard(by_person=True), AgentEnded(EndReason.CLOSED)], "stopped"),
        ([], "lost"),
    ],
)
def test_what_became_of_a_run(events: list[Event], verdict: str) -> None:
    told = JournalSummary()
    for seq, event in enumerate([HELLO, *events]):
        told.hear(Record(0, 1, seq, float(seq), event))
    assert told.verdict() == verdict


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        ([], "waiting"),
        ([Launched((0, 1))], "importing"),
        ([Launched((0, 1)), *exited(1)], "importing"),
        ([Launched((0, 1)), Exited(0, 1), Exited(1, -15, "SIGTERM", stopped=True)], "failed"),
        ([Launched((0, 1)), *exited(-15, -15, stopped=True)], "stopped"),
        ([Launched((0, 1)), *exited(0, 0)], "finished"),
        ([Launched((0, 1)), *exited(1, 1), Launched((0, 1))], "importing"),
    ],
)
def test_what_a_live_run_is_at(events: list[Event], doing: str) -> None:
    """One whose ranks have failed may wait to be started again."""
    told = JournalSummary()
    for seq, event in enumerate([HELLO, *events]):
        told.hear(Record(0, 1, seq, float(seq), event))
    assert told.doing() == doing


def steps_until(step: int, began: float, seconds: float) -> list[Record]:
    """Two blocks of five steps of rank 0, the last one with this number."""
    rows = [
        encode_row(StepFinished(0, 1, number, 1.0, seconds), began + number * seconds)
        for number in range(step - 9, step + 1)
    ]
    blocks = []
    for some_rows in (rows[:5], rows[5:]):
        decoded = decode_rows("".join(some_rows))
        assert decoded
        blocks.append(pack_rows(decoded))
    return [
        Record(0, 1, seq, began + block.step * seconds, block)
        for seq, block in enumerate(blocks, 1)
    ]


def test_it_is_told_when_ranks_last_moved_and_how_long_steps_take() -> None:
    told = JournalSummary()
    for record in steps_until(20, 1000.0, 0.5):
        told.hear(record)
    told.hear(Record(0, 1, 3, 1500.0, HostSample((1.0,), 1, 2)))
    assert (told.moved, told.last) == (1010.0, 1500.0)
    assert told.step_seconds == pytest.approx(0.5)
    told.hear(Record(0, 1, 4, 1600.0, OutputText(0, "stdout", "half way\n")))
    assert told.moved == 1600.0
    told.hear(Record(0, 2, 5, 1700.0, Launched((0,))))
    assert told.step_seconds == 0.0, "the next attempt may take longer"


def test_the_last_steps_are_found_before_many_samples(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=4 << 20)
    journal.write(1, [HELLO, Launched((0,)), *(one.event for one in steps_until(20, 1000.0, 0.5))])
    for _ in range(40):
        journal.write(1, [HostSample((1.0,), 1, 2)] * 100)
    journal.write(1, [*(one.event for one in steps_until(30, 1000.0, 0.5))])
    for _ in range(40):
        journal.write(1, [HostSample((1.0,), 1, 2)] * 100)
    told = JournalSummary()
    for record in journal_summary.read_ends(str(tmp_path), 0):
        told.hear(record)
    assert told.step == 30
    assert told.moved


def test_what_stands_before_a_flood_of_text_is_found(tmp_path: Path) -> None:
    """An exit stays known, and the flood is not decoded."""
    journal = Journal(str(tmp_path), 0, segment=4 << 20)
    journal.write(1, [HELLO, Launched((0, 1)), OutputText(1, "stdout", '"event":"exited"')])
    for _ in range(40):
        journal.write(1, [OutputText(1, "stdout", "x" * 100_000)])
        if _ == 30:
            journal.write(1, [Exited(0, 3)])
    journal.write(1, [Exited(1, 0)])
    records = list(journal_summary.read_ends(str(tmp_path), 0))
    assert [record.event for record in records if isinstance(record.event, Exited)] == [
        Exited(0, 3),
        Exited(1, 0),
    ]
    assert sum(isinstance(record.event, OutputText) for record in records) < 5
    told = JournalSummary()
    for record in records:
        told.hear(record)
    assert (told.hostname, told.ranks, set(told.exits)) == ("somewhere", (0, 1), {0, 1})


def test_another_machines_run_in_a_shared_folder_counts_as_live_until_it_has_been_still_for_long(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runs" / "a-run" / "0"
    folder.mkdir(parents=True)
    journal = Journal(str(folder), 0)
    journal.write(0, [HELLO, HostSample((1.0,), 1, 2)])
    (found,) = listed(tmp_path)
    assert (found.live, found.here) == (True, False)
    told = JournalSummary()
    told.hear(Record(0, 0, 1, 1000.0, HELLO))
    assert told.perhaps_elsewhere(1000.0 + journal_summary.STILL - 1)
    assert not told.perhaps_elsewhere(1000.0 + journal_summary.STILL)


def test_links_and_what_is_no_folder_of_a_run_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a-run" / "0").mkdir(parents=True)
    for name in ("01", "-1", "x", "²"):
        (tmp_path / "runs" / "a-run" / name).mkdir()
    (tmp_path / "runs" / "linked").symlink_to(tmp_path / "runs" / "a-run")
    (tmp_path / "runs" / "a-run" / "7").symlink_to(tmp_path)
    (tmp_path / "runs" / "file").write_text("")
    assert list(run_folders.list_run_folders(str(tmp_path))) == [("a-run", 0)]
    assert list(run_folders.list_run_folders(str(tmp_path / "none"))) == []
    (found,) = listed(tmp_path)
    assert (found.live, found.phase, found.last) == (False, "lost", 0.0)


def test_code_is_used_by_the_live_run_that_names_it_or_by_any_that_does_not(tmp_path: Path) -> None:
    for name in ("new", "old", "mine"):
        (tmp_path / "code" / name).mkdir(parents=True)
        os.utime(tmp_path / "code" / name, (0, 0) if name != "new" else None)
    folder = tmp_path / "runs" / "a-run" / "0"
    folder.mkdir(parents=True)
    (folder / CODE).write_text(str(tmp_path / "code" / "mine"))
    ended = run_folders.examine(str(tmp_path), "a-run", 0)
    with hold_lock(str(folder)):
        live = run_folders.examine(str(tmp_path), "a-run", 0)
    assert (ended.live, live.live) == (False, True)
    assert used(tmp_path, [ended]) == {"new"}
    assert used(tmp_path, [live]) == {"new", "mine"}
    (folder / CODE).unlink()
    assert used(tmp_path, [live]) == {"new", "mine", "old"}


def used(workdir: Path, runs: list[RunFolder]) -> set[str]:
    found: list[CodeArchive] = list(run_folders.list_archives(str(workdir), runs))
    assert len(found) == 3
    return {archive.name for archive in found if archive.used}


@pytest.mark.parametrize("kind", ["pipe", "link", "huge"])
@pytest.mark.parametrize("name", ["plan.json", "lock", "code", "000000000001.journal"])
def test_what_is_no_regular_file_of_a_run_holds_nothing_up(
    name: str, kind: str, tmp_path: Path
) -> None:
    """In a run directory from somebody else, for one."""
    folder = tmp_path / "runs" / "a-run" / "0"
    folder.mkdir(parents=True)
    Journal(str(folder), 0).write(0, [HELLO])
    (tmp_path / "victim").write_text('{"hosts": [{}, {}]}')
    path = next(folder.glob("*.journal")) if name.endswith("journal") else folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "victim")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    told = list(run_folders.runs(str(tmp_path)))
    assert [one.get("hosts", 0) for one in told] == [0]
    if name == "plan.json":
        assert [len(one["plan"]) for one in run_folders.plan(str(tmp_path), "a-run")] == [
            8 << 20
        ] * (kind == "huge")
