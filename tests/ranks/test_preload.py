"""The preload: ranks as processes of their own, what is reported of them, and how they end."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.kit.forked_ranks import Forker
from tests.kit.training_ranks import ROOT, Ranks, alive, kill
from tests.kit.wait import wait
from training.job import Job
from training.wire.rank_events import Entered

JOB = Job(steps=2)
LONG = Job(epochs=100_000, log_every=1_000_000)


def waiting(started: Ranks) -> bool:
    """Whether all started ranks wait for one that never comes."""
    return all(
        Entered(rank, "rendezvous") in started.events(rank) for rank in range(len(started.pids()))
    )


def fds(pid: int) -> dict[int, str]:
    """The open files of a process by number, without those that it closes meanwhile."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(link.name)] = os.readlink(link)
    return found


def test_a_rank_is_a_process_of_its_own(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, JOB, world=3, only=2) as started:
        wait(
            lambda: len(started.pids()) == 2 and waiting(started),
            "two ranks that wait for the third",
        )
        for rank, pid in started.pids().items():
            assert os.getpgid(pid) == pid
            assert os.getsid(pid) == os.getsid(started.pid)
            # the C library blocks signals for a moment while it starts a thread
            wait(lambda pid=pid: not signals(pid, "SigBlk"), f"rank {rank} with no signal blocked")
            assert not signals(pid, "SigCgt") & 1 << signal.SIGTERM - 1
            held = fds(pid)
            assert [Path(held[number]).name for number in range(3)] == [
                "null",
                f"{rank}.out",
                f"{rank}.err",
            ]
            others = {Path(held[number]).name for number in held if number > 2}
            assert not others & {
                "report",
                *(f"{r}.{kind}" for r in range(2) for kind in ("out", "err")),
            }


def signals(pid: int, kind: str) -> int:
    """A mask of signals of a process, as /proc names it: bit 0 is signal 1."""
    found = re.search(rf"^{kind}:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1], 16)


def test_only_rank_0_listens_and_only_where_it_was_told(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, JOB, world=3, only=2) as started:
        wait(
            lambda: len(started.pids()) == 2 and waiting(started),
            "two ranks that wait for the third",
        )
        inodes = {
            rank: {target[8:-1] for target in fds(pid).values() if target.startswith("socket:")}
            for rank, pid in started.pids().items()
        }
        tables = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        tables += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
        listening = {row[9]: row[1].partition(":")[0] for row in tables if row[3] == "0A"}
        assert [listening[inode] for inode in inodes[0] if inode in listening] == ["0100007F"]
        assert not inodes[1] & listening.keys()


def test_exit_statuses_and_signals_are_reported_as_they_were(
    forked: Forker, tmp_path: Path
) -> None:
    with forked.preload(tmp_path, JOB, world=4, only=3) as started:
        wait(
            lambda: len(started.pids()) == 3 and waiting(started),
            "three ranks that wait for the fourth",
        )
        kill(started.pids()[2], signal.SIGTERM)
        wait(lambda: 2 in started.exits(), "the end of rank 2")
        kill(started.pids()[1], signal.SIGKILL)
        wait(lambda: 1 in started.exits(), "the end of rank 1")
        assert alive(started.pids()[0])
        kill(started.pids()[0], signal.SIGINT)
        assert {
            rank: os.waitstatus_to_exitcode(status) for rank, status in started.wait().items()
        } == {0: -2, 1: -9, 2: -15}
        assert started.code == 0


def test_ranks_die_with_the_preload(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, JOB, world=3, only=2) as started:
        wait(
            lambda: len(started.pids()) == 2 and waiting(started),
            "two ranks that wait for the third",
        )
        kill(started.pid)
        wait(lambda: not any(map(alive, started.pids().values())), "the ranks' end")


def test_the_preload_dies_with_who_started_it(tmp_path: Path) -> None:
    start = (
        "import subprocess, sys, time\n"
        "argv = [sys.executable, '-m', 'training.preload', '--report-fd', '1', '--pipes', "
        "'0:1:2']\n"
        "print(subprocess.Popen(argv, stdin=subprocess.PIPE).pid, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", start], cwd=ROOT, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        wait(lambda: "libtorch" in Path(f"/proc/{pid}/maps").read_text(), "a preload that imports")
        kill(parent.pid)
        wait(lambda: not alive(pid), "the preload's end")


def test_a_failing_rank_says_why_and_exits_with_1(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, JOB, world=1, env={"WORLD_SIZE": "many"}) as started:
        assert os.waitstatus_to_exitcode(started.wait()[0]) == 1
        assert started.err(0).startswith("Traceback (most recent call last):\n")
        assert "ValueError: invalid literal for int() with base 10: 'many'" in started.err(0)


def test_a_rank_whose_peer_was_killed_fails_at_once(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, LONG, world=2) as started:
        wait(lambda: len(started.pids()) == 2 and started.steps(0), "the first step")
        kill(started.pids()[1])
        wait(lambda: len(started.exits()) == 2, "the end of both")
        assert os.waitstatus_to_exitcode(started.wait()[0]) == 1
        assert "Traceback" in started.err(0)


def test_a_job_that_cannot_be_is_a_message_and_exit_code_2(forked: Forker, tmp_path: Path) -> None:
    with forked.preload(tmp_path, ["--batch-size", "1"], world=2) as started:
        assert [os.waitstatus_to_exitcode(status) for status in started.wait().values()] == [2, 2]
        text = "python -m training: error: --batch-size 1 is smaller than the 2 ranks that share it"
        assert started.err(0) == f"{text}: give at least 2, or use fewer ranks\n"
        assert started.out(0) == ""


def test_before_a_start_there_is_one_thread_and_no_cuda_and_without_one_no_rank(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys; from training import preload; preload.import_torch(); import torch;"
        "print(len(os.listdir('/proc/self/task')), torch.cuda.is_initialized(), 'torch._dynamo' "
        "in sys.modules, flush=True);"
        "sys.exit(preload.main(sys.argv[1:]))"
    )
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    with open(tmp_path / "report", "wb") as report:
        number = report.fileno()
        refused = subprocess.run(
            [sys.executable, "-c", code, f"--report-fd={number}", f"--pipes=0:{number}:{number}"],
            input=b'{"command":"stop"}\n',
            capture_output=True,
            cwd=ROOT,
            env=env,
            pass_fds=[number],
            check=False,
        )
    assert refused.stdout.split() == [b"1", b"False", b"True"]
    assert refused.returncode == 1
    assert b"not a start" in refused.stderr
    assert (tmp_path / "report").read_bytes() == b""
