"""A rank that a signal stops before its first step, while others wait for it: it is named with its
function, and is a stall that ends the run where that is wanted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import OnStall, Plan, Policy, Script
from remote.record.write import Recorder
from remote.run.findings.stall import STALL_LIMITS
from remote.run.findings.start_waits import waiting
from remote.run.state.phases import Verdict
from remote.session.session import Session
from remote.session.times import TIMES
from remote.transport.local import LocalTransport
from tests.kit.slow import slow

RANKS = 2
STOPPED = 1
QUICK = replace(TIMES, stall=replace(STALL_LIMITS, least=9.0))
"""Stacks are asked for after 4, 8 and 16 s: on a busy machine the first may come too early."""
PROGRAM = f"""
import os, signal, sys, torch, torch.distributed as dist
import torch.distributed.tensor  # DistributedDataParallel does it, which takes seconds
from torch.nn.parallel import DistributedDataParallel

class Stopping(torch.nn.Linear):
    def named_parameters(self, *args, **kwargs):
        stop("DistributedDataParallel")
        return super().named_parameters(*args, **kwargs)

    def forward(self, inputs):
        stop("forward")
        return super().forward(inputs)

def stop(place):
    if place == sys.argv[1] and os.environ["RANK"] == "{STOPPED}":
        os.kill(os.getpid(), signal.SIGSTOP)

def store_of(*arguments, **options):
    stop("init_process_group")
    return create(*arguments, **options)

create = dist.distributed_c10d.rendezvous
dist.distributed_c10d.rendezvous = store_of
dist.init_process_group("gloo")
model = DistributedDataParallel(Stopping(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1000):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("init_process_group", marks=slow),
        "DistributedDataParallel",
        pytest.param("forward", marks=slow),
    ],
)
def test_a_rank_that_is_stopped_before_the_first_step_is_a_stall(
    place: str, tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    host = Host("local", "127.0.0.1", python=sys.executable, workdir=str(tmp_path), slots=RANKS)
    # Unchecked: what else takes memory or disk of this machine is to keep no run from starting.
    policy = Policy(doctor=False, on_stall=OnStall.STOP)
    plan = Plan("run", (host,), Script((sys.executable, str(program), place)), policy)
    recorder = Recorder(tmp_path / "runs", plan)
    session = Session(plan, LocalTransport(), recorder, str(tmp_path), times=QUICK)
    told: set[str] = set()
    for _ in session.batches():
        state = session.state
        told |= {wait.text().rpartition(" (")[0] for wait in waiting(state, state.now)}
    state = session.state
    where = "" if place == "forward" else f", in {place}"
    problem = f"is stopped, by SIGSTOP or a debugger{where}"
    assert state.verdict is Verdict.FAILED, told
    assert state.cause is not None
    assert state.cause.rank == STOPPED
    assert state.cause.problem.startswith(f"stalled: {problem.removeprefix('is ')}; rank 0 waits")
    if place != "forward":  # there nobody says that it waits
        named = f"waiting for rank {STOPPED} on local: {problem}; rank 0 waits for it"
        assert named in told
