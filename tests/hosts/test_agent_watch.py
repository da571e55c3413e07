"""Watching a user's own program: what the agent hands on of it, and of whom."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from tests.kit.agents import Host
from training.watch.gloo import LOCK_SECONDS
from training.watch.steps import REPORT_INTERVAL
from training.wire.commands import Placement
from training.wire.events import OutputText, StepFinished, expand

WATCHED = {"RANKBOARD_WATCH": "1", "RANK": "3"}
STEP = """
import os, time, torch
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)

def step():
    weight.sum().backward()
    optimizer.step()
"""
KILLED = f"""{STEP}
for _ in range(3):
    time.sleep({2 * REPORT_INTERVAL})
    step()
os.kill(os.getpid(), 9)
"""
STEPS = f"""{STEP}
for _ in range(4):
    step()
if os.fork() == 0:
    step()
    os._exit(0)
os.wait()
step()
time.sleep({2 * REPORT_INTERVAL})
weight.sum().backward()  # what has waited is told now
pipe = int(os.environ["RANKBOARD_EVENTS_FD"].split(":")[0])
os.dup2(os.open("mine", os.O_CREAT | os.O_WRONLY), pipe)
step()
assert os.path.getsize("mine") == 0
"""
GLOO = f"""
import torch
from torch import distributed

def sleep(seconds):
    os.write(1, f"slept {{seconds}}\\n".encode())

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
{STEP}
step()
distributed.all_reduce(weight.detach())
distributed.destroy_process_group()
os.dup2(2, int(os.environ["RANKBOARD_EVENTS_FD"].split(":")[0]))  # ends the watch
time.sleep = sleep
"""
"""An optimiser imports what keeps the threads of Gloo after their group is destroyed."""
IS_WATCHED = "any(type(one).__name__ == 'ImportWatcher' for one in __import__('sys').meta_path)"
CHILDREN = f"""
import os, subprocess, sys
print("self", {IS_WATCHED}, flush=True)
for flags in ((), ("-I",), ("-S",)):
    subprocess.run([sys.executable, *flags, "-c", "print('child', {IS_WATCHED})"], check=True)
os.execv(sys.executable, [sys.executable, "-c", "print('exec', {IS_WATCHED})"])
"""


def run(host: Host, code: str, ends: int = 0, **env: str) -> tuple[list[StepFinished], str]:
    """What is seen of a program, and what it prints; `ends` is its exit code."""
    follower = host.follow()
    command = (sys.executable, "-c", textwrap.dedent(code))
    follower.start(Placement(3, 0, command, tuple({**WATCHED, **env}.items())))
    assert follower.exits(1)[3].code == ends, follower.text(3, "stderr")
    found = [one.event for record in follower.close() for one in expand(record)]
    texts = [event.text for event in found if isinstance(event, OutputText) and event.rank == 3]
    return [event for event in found if isinstance(event, StepFinished)], "\n".join(texts)


def test_each_step_of_the_rank_itself_is_told_and_nothing_is_printed(host: Host) -> None:
    """Not those of a fork, nor any once it has closed the pipe."""
    steps, text = run(host, STEPS)
    assert [(step.rank, step.step, step.epoch) for step in steps] == [
        (3, number, 0) for number in range(1, 6)
    ]
    assert steps[0].loss == 3.0
    assert all(step.seconds >= step.ready > 0 for step in steps[1:])
    assert text == ""


def test_a_kill_loses_no_step_unless_they_are_quick(host: Host) -> None:
    steps, _ = run(host, KILLED, ends=-9)
    assert [step.step for step in steps] == [1, 2, 3]


def test_threads_of_gloo_get_time_to_finish_also_without_the_watch(host: Host) -> None:
    """Otherwise, some of these programs die by SIGABRT."""
    assert run(host, GLOO)[1] == f"slept {LOCK_SECONDS}"


def test_children_are_watched_where_they_may_become_workers(host: Host) -> None:
    steps, text = run(host, CHILDREN)
    children = ["child True", "child False", "child False"]
    assert text.split("\n") == ["self True", *children, "exec True"]
    assert steps == []


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
