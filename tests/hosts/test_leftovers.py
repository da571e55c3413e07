"""What is left when guard and agent are killed at once: found, told apart from what lives, and
ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.agents import SLEEP, Host, hosting, kill_both, python
from tests.kit.wait import wait
from training.agent.host.system import LINUX
from training.agent.host_commands import orphans, process_table
from training.agent.times import AgentTimes
from training.wire.host_replies import Orphan

pytestmark = pytest.mark.skipif(not LINUX, reason="needs /proc")
FAMILY = """
import os, sys, time
def child(group=False, session=False, orphan=False, env=None):
    if os.fork() == 0:
        if orphan and os.fork():
            os._exit(0)
        if session:
            os.setsid()
        argv = [sys.executable, "-c", "import time; time.sleep(600)"]
        os.execve(sys.executable, argv, env or os.environ)
child()                                         # below the rank, in its group
child(session=True)  # below it, in a session of its own, as some workers of a DataLoader
child(orphan=True, env={"PATH": "/bin"})  # in its group, not below it, with another environment
child(orphan=True, session=True)                # has only its environment left
time.sleep(0.3)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with hosting(tmp_path / "runs" / "a-run" / "3") as host:
        yield host


def find(workdir: Path) -> list[Orphan]:
    return orphans.find_orphans([str(workdir)])


def finish(workdir: Path, found: list[Orphan], grace: float = 2.0) -> list[bool]:
    wanted = [(orphan.pid, orphan.start) for orphan in found]
    return [
        one.gone for one in orphans.end_processes([str(workdir)], wanted, AgentTimes(grace=grace))
    ]


def shift(journal: Path, seconds: float, of: str = "") -> None:
    """Make the records of a journal, or those that hold a text, so much older."""
    lines = journal.read_text().splitlines(keepends=True)
    older = [
        re.sub(r'"time":([\d.]+)', lambda time: f'"time":{float(time[1]) - seconds}', line)
        for line in lines
    ]
    journal.write_text(
        "".join(new if of in old else old for old, new in zip(lines, older, strict=True))
    )


def test_a_family_is_found_and_ended(host: Host, tmp_path: Path) -> None:
    line = host.follow()
    line.start(python(FAMILY))
    line.wait_for_text("up")
    wait(lambda: len(host.processes()) == 3 + 1 + 3, "the whole family")
    assert find(tmp_path) == []
    kill_both(line)
    found = find(tmp_path)
    assert [orphan.found for orphan in found].count("rank 0") == 1
    how = sorted(orphan.found for orphan in found)
    assert how == [
        "below rank 0",
        "group of rank 0",
        "group of rank 0",
        "its environment names the run",
        "rank 0",
    ]
    assert {(orphan.run, orphan.host) for orphan in found} == {("a-run", 3)}
    assert all(
        sys.executable in orphan.command and time.time() - 60 < orphan.began < time.time()
        for orphan in found
    )
    assert finish(tmp_path, found) == [True] * 5
    assert find(tmp_path) == []


def test_members_of_a_dead_ranks_group_are_found_by_its_number(host: Host, tmp_path: Path) -> None:
    line = host.follow()
    line.start(python(FAMILY))
    line.wait_for_text("up")
    rank = line.pid()
    kill_both(line)
    os.kill(rank, signal.SIGKILL)
    wait(lambda: rank not in process_table.list_processes(), "the rank is gone")
    (journal,) = host.folder.glob("*.journal")
    shift(journal, 100, '"event":"spawned"')  # as if its children had come long after it
    found = find(tmp_path)
    assert (
        sorted(orphan.found for orphan in found)
        == ["group of rank 0"] * 2 + ["its environment names the run"] * 2
    )
    assert finish(tmp_path, found) == [True] * 4


def test_a_stopped_agent_whose_guard_is_killed(host: Host, tmp_path: Path) -> None:
    line = host.follow()
    line.start(python(SLEEP))
    line.wait_for_text("up")
    agent = line.agent()
    os.kill(agent, signal.SIGSTOP)
    os.kill(process_table.list_processes()[agent].parent, signal.SIGKILL)
    wait(lambda: find(tmp_path), "the lock is free")
    found = find(tmp_path)
    assert {(orphan.found, orphan.pid) for orphan in found} == {
        ("agent", agent),
        ("rank 0", line.pid()),
    }
    assert all(finish(tmp_path, found, grace=0.1))
    line.kill()


def test_nothing_of_a_live_run_is_found_even_when_its_folder_is_gone(
    host: Host, tmp_path: Path
) -> None:
    line = host.follow()
    line.start(python(SLEEP))
    line.wait_for_text("up")
    answer = list(orphans.list_orphans(str(tmp_path)))
    assert answer == [{"kind": "live", "run": "a-run"}]
    shutil.rmtree(tmp_path / "runs")
    assert find(tmp_path) == []
    os.kill(line.agent(), signal.SIGKILL)  # the guard ends the rest, and then itself
    host.wait_until_empty()


def test_a_live_run_that_a_rank_of_an_ended_one_has_begun_is_left_alone(
    host: Host, tmp_path: Path
) -> None:
    line = host.follow()
    line.start(python(SLEEP))
    line.wait_for_text("up")
    with hosting(tmp_path / "other" / "runs" / "b-run" / "0") as inner:
        os.environ.update(RANKBOARD_RUN="a-run", RANKBOARD_FOLDER=str(host.folder))
        try:
            live = inner.follow()
        finally:
            del os.environ["RANKBOARD_RUN"], os.environ["RANKBOARD_FOLDER"]
        live.start(python(SLEEP))
        live.wait_for_text("up")
        kill_both(line)
        pids = {orphan.pid for orphan in find(tmp_path)}
        assert line.pid() in pids
        assert not pids & (
            {live.pid(), live.agent()} | {process_table.list_processes()[live.agent()].parent}
        )
        assert all(finish(tmp_path, find(tmp_path)))
        live.close()


def test_a_number_that_somebody_else_has_got_is_not_found_and_not_signalled(
    host: Host, tmp_path: Path
) -> None:
    """The journal names a process that began after it was written."""
    line = host.follow()
    line.start(python(SLEEP))
    line.wait_for_text("up")
    rank = line.pid()
    kill_both(line)
    (orphan,) = find(tmp_path)
    stranger = subprocess.Popen(
        [sys.executable, "-c", SLEEP], start_new_session=True, stdout=subprocess.DEVNULL
    )
    try:
        for journal in host.folder.glob("*.journal"):
            named = journal.read_text().replace(f'"pid":{rank}}}', f'"pid":{stranger.pid}}}')
            journal.write_text(named)
            shift(journal, 100)
        start = process_table.list_processes()[stranger.pid].start
        assert stranger.pid not in {one.pid for one in find(tmp_path)}
        answer = list(orphans.end(str(tmp_path), f"{stranger.pid}:{start}", f"{stranger.pid}:0"))
        assert [(one["start"], one["gone"]) for one in answer] == [(start, False), (0, True)]
        process_table.send_signal(stranger.pid, start + 1, signal.SIGKILL)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        process_table.send_signal(orphan.pid, orphan.start, signal.SIGKILL)
