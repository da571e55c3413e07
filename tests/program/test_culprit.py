"""A rank that destroys its process group on the way out dies after its victims: the cause is named
all the same, each time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from remote.record.write import Recorder
from remote.run.state.phases import RankPhase, Verdict
from remote.session.session import Session
from remote.transport.local import LocalTransport
from tests.kit.slow import slow

RANKS = 2
CULPRIT = 1
PROGRAM = f"""
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
try:
    for step in range(1000):
        if step == 20 and rank == {CULPRIT}:
            raise ValueError("bad batch")
        dist.all_reduce(torch.ones(1000))
finally:
    dist.destroy_process_group()
    time.sleep(float(sys.argv[1]) if rank == {CULPRIT} else 0)
"""


@pytest.mark.parametrize("late", [pytest.param("0", marks=slow), "0.5"])
def test_culprit_is_found(late: str, tmp_path: Path) -> None:
    """Whether it ends a moment after its victims, or as they do."""
    host = Host("local", "127.0.0.1", python=sys.executable, workdir=str(tmp_path), slots=RANKS)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    plan = Plan("run", (host,), Script((sys.executable, str(program), late)))
    session = Session(plan, LocalTransport(), Recorder(tmp_path / "runs", plan), str(tmp_path))
    for _ in session.batches():
        pass
    state = session.state
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert (state.cause.rank, state.cause.problem) == (CULPRIT, "ValueError: bad batch")
    assert state.cause.victims == tuple(rank for rank in range(RANKS) if rank != CULPRIT)
    assert state.ranks[CULPRIT].phase is RankPhase.FAILED
    assert any("raise ValueError" in line for line in state.cause.tail)
