"""Ranks that have not called `init_process_group` while another waits in it: a Python program that
sleeps, and a shell that does. Both are named, with what they do."""

from __future__ import annotations

import sys
from pathlib import Path

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Policy, Script
from remote.record.write import Recorder
from remote.run.findings.start_waits import waiting
from remote.run.state.phases import Verdict
from remote.session.session import Session
from remote.transport.local import LocalTransport

RANKS = 3
PROGRAM = """
import os, time
def load():
    time.sleep(600)
if os.environ["RANK"] == "1":
    load()
import torch.distributed as dist
dist.init_process_group("gloo")
"""
COMMAND = 'if [ "$RANK" = 2 ]; then sleep 600; exit 1; fi; exec "$0" "$1"'


FORKING = """
import multiprocessing, os, time
import torch.distributed as dist
def load():
    time.sleep(600)
def work(rank):
    if rank == 1:
        load()
    dist.init_process_group("gloo", "file://" + os.path.abspath("meeting"), rank=rank, world_size=3)
workers = [multiprocessing.Process(target=work, args=(rank,)) for rank in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
"""


def assert_named(
    folder: Path, words: tuple[str, ...], slots: int, expected: dict[str, str]
) -> None:
    """Run a script until this is said of the ranks for which others wait."""
    host = Host("local", "127.0.0.1", python=sys.executable, workdir=str(folder), slots=slots)
    # Unchecked: what else takes memory or disk of this machine is to keep no run from starting.
    plan = Plan("run", (host,), Script(words), Policy(doctor=False))
    session = Session(plan, LocalTransport(), Recorder(folder / "runs", plan), str(folder))
    said: set[str] = set()
    for _ in session.batches():
        state = session.state
        waits = {wait.subject: wait.progress for wait in waiting(state, state.now)}
        said |= set(waits.values())
        if waits == expected:
            session.stop("all is named")
    assert session.state.verdict is Verdict.STOPPED, (session.state.cause, said)
    assert session.state.stop_reason == "all is named", said


def test_ranks_that_hold_up_the_start_are_named_with_what_they_do(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    expected = {
        "rank 1 on local": "has not called init_process_group, is in train.py:4, load; "
        "rank 0 waits in it",
        "rank 2 on local": "has not called init_process_group, runs sh -c …: sleep 600; "
        "rank 0 waits in it",
    }
    assert_named(tmp_path, ("sh", "-c", COMMAND, sys.executable, str(program)), RANKS, expected)


def test_a_worker_that_holds_up_the_start_is_named_with_its_line(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(FORKING)
    expected = {
        "rank 1 on local": "has not called init_process_group, is in train.py:5, load; "
        "ranks 0 and 2 wait in it",
    }
    assert_named(tmp_path, (sys.executable, str(program)), 1, expected)
