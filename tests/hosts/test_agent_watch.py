"""Watching a user's own program: what the agent hands on of it, and of whom."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from tests.kit.agents import Host
from tests.kit.rank_reports import take_apart
from training.watch.gloo import LOCK_SECONDS
from training.watch.steps import REPORT_INTERVAL
from training.wire.commands import Placement
from training.wire.host_events import OutputText, WorkerExited, WorkerJoined
from training.wire.rank_events import StepFinished

WATCHED = {"RANKBOARD_WATCH": "1", "RANK": "3"}
OPTIMIZER = """
import os, sys, time, torch

class Descent(torch.optim.Optimizer):
    def add_param_group(self, group):  # that of torch imports torch._dynamo, for seconds
        self.param_groups.append(group)

    def step(self):
        pass

def step():
    weight.sum().backward()
    optimizer.step()

weight = torch.ones(3, requires_grad=True)
optimizer = Descent([weight], {})
"""
KILLED = f"""{OPTIMIZER}
for _ in range(3):
    time.sleep({2 * REPORT_INTERVAL})
    step()
os.kill(os.getpid(), 9)
"""
STEPS = f"""{OPTIMIZER}
from torch import distributed

def sleep(seconds):
    os.write(1, f"slept {{seconds}}\\n".encode())

for _ in range(4):
    step()
if os.fork() == 0:
    step()
    os._exit(0)
os.wait()
step()
time.sleep({2 * REPORT_INTERVAL})
weight.sum().backward()  # what has waited is told now

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
import torch.distributed.nn.functional  # keeps the group, and its threads
distributed.all_reduce(weight.detach())
distributed.destroy_process_group()
pipe = int(os.environ["RANKBOARD_EVENTS_FD"].split(":")[0])
os.dup2(os.open("mine", os.O_CREAT | os.O_WRONLY), pipe)  # ends the watch
step()
assert os.path.getsize("mine") == 0
time.sleep = sleep
"""
IS_WATCHED = "any(type(one).__name__ == 'ImportWatcher' for one in __import__('sys').meta_path)"
CHILDREN = f"""
import os, subprocess, sys
print("self", {IS_WATCHED}, flush=True)
for flags in ((), ("-I",), ("-S",)):
    subprocess.run([sys.executable, *flags, "-c", "print('child', {IS_WATCHED})"], check=True)
os.execv(sys.executable, [sys.executable, "-c", "print('exec', {IS_WATCHED})"])
"""


WORKERS = f"""{OPTIMIZER}
import multiprocessing
from torch import distributed
import torch.testing._internal.distributed.fake_pg  # a backend that waits for nobody

def work(rank, how):
    step()  # of nobody, as it is not known which rank this is
    world = 1 if how == "alone" else 8
    distributed.init_process_group(
        "fake", store=distributed.HashStore(), rank=rank % world, world_size=world
    )
    for _ in range(2):
        step()
        time.sleep(0.1)
    weight.sum().backward()  # what has waited is told now
    if how == "killed":
        os.kill(os.getpid(), 9)
    if how == "failing":
        raise ValueError("no batch")

if __name__ == "__main__":
    children = []
    for rank, way in enumerate(sys.argv[1:], 4):
        method, how = way.split()
        process = multiprocessing.get_context(method).Process(target=work, args=(rank, how))
        children.append(process)
    for child in children:
        child.start()
    time.sleep(0.2)
    for child in children:
        child.join()
"""

REMOTE_WORKERS = f"""{OPTIMIZER}
import multiprocessing
from torch.distributed import rpc

def work(rank):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{{os.getcwd()}}/store")
    rpc.init_rpc(f"worker{{rank}}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        rpc.rpc_sync("worker0", torch.neg, args=(torch.ones(3),))
        step()
    rpc.shutdown()
    time.sleep(0.5)  # the agent looks whether this process is one of the program

processes = multiprocessing.get_context("fork")
children = [processes.Process(target=work, args=(rank,)) for rank in range(2)]
for child in children:
    child.start()
for child in children:
    child.join()
"""


def run(host: Host, code: str, ends: int = 0, **env: str) -> tuple[list[StepFinished], str]:
    """What is seen of a program, and what it prints; `ends` is its exit code."""
    follower = host.follow()
    command = (sys.executable, "-c", textwrap.dedent(code))
    follower.start(Placement(3, 0, command, tuple({**WATCHED, **env}.items())))
    assert follower.exits(1)[3].code == ends, follower.text(3, "stderr")
    found = [one.event for record in follower.close() for one in take_apart(record)]
    texts = [event.text for event in found if isinstance(event, OutputText) and event.rank == 3]
    return [event for event in found if isinstance(event, StepFinished)], "\n".join(texts)


def test_each_step_of_the_rank_itself_is_told_and_nothing_is_printed(host: Host) -> None:
    """Not those of a fork, nor any once it has closed the pipe. Threads of Gloo get time to finish
    also without the watch: otherwise, some of these programs die by SIGABRT."""
    steps, text = run(host, STEPS)
    assert [(step.rank, step.step, step.epoch) for step in steps] == [
        (3, number, 0) for number in range(1, 6)
    ]
    assert steps[0].loss == 3.0
    assert all(step.seconds >= step.ready > 0 for step in steps[1:])
    assert text == f"slept {LOCK_SECONDS}"


def test_a_kill_loses_no_step_unless_they_are_quick(host: Host) -> None:
    steps, _ = run(host, KILLED, ends=-9)
    assert [step.step for step in steps] == [1, 2, 3]


def test_children_are_watched_where_they_may_become_workers(host: Host) -> None:
    steps, text = run(host, CHILDREN)
    children = ["child True", "child False", "child False"]
    assert text.split("\n") == ["self True", *children, "exec True"]
    assert steps == []


def test_workers_tell_their_steps_and_their_ends(host: Host, tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text(WORKERS)
    follower = host.follow()
    ways = ("fork well", "fork failing", "fork killed", "spawn failing", "fork alone")
    command = (sys.executable, str(tmp_path / "workers.py"), *ways)
    follower.start(Placement(3, 0, command, (*WATCHED.items(),)))
    assert follower.exits(1)[3].code == 0, follower.text(3, "stderr")
    found = [one.event for record in follower.close() for one in take_apart(record)]
    joined = {event.rank: event for event in found if isinstance(event, WorkerJoined)}
    assert {(one.process, one.world_size) for one in joined.values()} == {(3, 8)}
    assert sorted(joined) == [4, 5, 6, 7]  # who is alone is no worker, and no rank of the program
    assert len({one.pid for one in joined.values()}) == 4
    steps = [(event.rank, event.step) for event in found if isinstance(event, StepFinished)]
    assert sorted(steps) == [(rank, step) for rank in sorted(joined) for step in (1, 2)]
    ends = {event.rank: event for event in found if isinstance(event, WorkerExited)}
    assert (ends[4].code, ends[4].error) == (0, "")
    for failing in (ends[5], ends[7]):
        assert failing.code == 1
        assert failing.error.endswith("ValueError: no batch\n")
    assert ends[6].error == ""
    assert (ends[6].code, ends[6].signal) == (-9, "SIGKILL") or not ends[6].known


def test_workers_of_a_group_of_remote_calls_are_watched(host: Host) -> None:
    follower = host.follow()
    command = (sys.executable, "-c", REMOTE_WORKERS)
    follower.start(Placement(3, 0, command, (*WATCHED.items(), ("TP_SOCKET_IFNAME", "lo"))))
    assert follower.exits(1)[3].code == 0, follower.text(3, "stderr")
    found = [one.event for record in follower.close() for one in take_apart(record)]
    joined = {event.rank: event for event in found if isinstance(event, WorkerJoined)}
    assert sorted(joined) == [0, 1]
    assert {one.world_size for one in joined.values()} == {2}
    steps = [(event.rank, event.step) for event in found if isinstance(event, StepFinished)]
    assert steps == [(1, 1)]


def test_who_does_not_want_it_is_not_watched(host: Host) -> None:
    tell = f"import os; print({IS_WATCHED}, 'RANKBOARD_EVENTS_FD' in os.environ)"
    assert run(host, tell, RANKBOARD_WATCH="0") == ([], "False False")


def test_a_watch_that_cannot_begin_says_so(host: Host, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        sys.modules['_rankboard_watch.hooks'] = None
        import torch
        print("done")
        """
    steps, text = run(host, code)
    assert "rankboard: cannot watch this program: " in text
    assert "done" in text
    assert steps == []
