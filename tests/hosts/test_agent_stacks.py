"""Asking ranks where they are: by faulthandler, from outside, and never by a signal that kills."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from remote.run.diagnosis.stacks import frames, locate_rank, split_threads
from remote.run.diagnosis.stall_causes import find_culprits
from tests.kit.agents import Follower, Host, python
from tests.kit.wait import wait
from training.agent.host import stacks
from training.agent.host.proc_files import LONGEST_COMMAND, shorten_command, state_letter
from training.agent.host.processes import descendants
from training.agent.host.stacks import SIGNAL
from training.agent.ranks.launch import SITE
from training.wire.commands import Placement, Stacks, StartAttempt
from training.wire.host_events import Spawned, Stack

AT = "print('at it', flush=True)"
LOAD = f"import sys, time\ndef load_batch():\n    {AT}\n    time.sleep(1000)\n"
STAND_IN = f"""{LOAD}
import multiprocessing
import torch.testing._internal.distributed.fake_pg  # a backend that waits for nobody
from torch import distributed

def work():
    store = distributed.HashStore()
    distributed.init_process_group("fake", store=store, rank=0, world_size=1)
    load_batch()

if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
"""


def script(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def run(path: str, rank: int = 0, **env: str) -> Placement:
    return Placement(rank, rank, (sys.executable, path), tuple(env.items()))


def ask(follower: Follower, number: int = 1) -> dict[int, Stack]:
    """The newest stack of each rank, once so many more have come."""
    known = len(follower.of(Stack))
    follower.send(Stacks())
    return {stack.rank: stack for stack in follower.wait_for(Stack, known + number)[known:]}


def letter_of(stack: Stack) -> str:
    match = re.match(r"state: (\w)", stack.text)
    assert match, stack.text
    return match[1]


def test_a_script_of_the_users_tells_its_stack_as_often_as_it_is_asked(
    host: Host, tmp_path: Path
) -> None:
    follower = host.follow()
    follower.start(run(script(tmp_path, LOAD + "load_batch()\n")))
    follower.wait_for_text("at it")
    for _ in range(3):
        stack = ask(follower)[0]
        assert stack.source == "faulthandler"
        assert letter_of(stack) == "S"
        assert [(frame.line, frame.function, frame.code) for frame in frames(stack.text)] == [
            ("4", "load_batch", "time.sleep(1000)"),
            ("5", "<module>", "load_batch()"),
        ]
        assert len(split_threads(stack.text)) == 2  # the state, and this one dump's main thread
    assert not list((host.folder / "stacks").iterdir())
    follower.close()


def test_a_process_that_stands_in_for_the_rank_tells_its_stack(host: Host, tmp_path: Path) -> None:
    follower = host.follow()
    follower.start(run(script(tmp_path, STAND_IN), RANKBOARD_WATCH="1", RANK="0", WORLD_SIZE="1"))
    follower.wait_for_text("at it")
    assert frames(ask(follower)[0].text)[0].function == "load_batch"
    follower.close()


def test_the_main_thread_is_told_first_and_all_others_too(host: Host, tmp_path: Path) -> None:
    more = (
        "import threading\nfor _ in range(3): threading.Thread(target=time.sleep, args=(1000,), "
        "daemon=True).start()\n"
    )
    follower = host.follow()
    follower.start(run(script(tmp_path, LOAD + more + "load_batch()\n")))
    follower.wait_for_text("at it")
    stack = ask(follower)[0]
    assert len(split_threads(stack.text)) == 5
    assert frames(stack.text)[0].function == "load_batch"
    follower.close()


def test_a_stack_is_told_whole_however_long_it_takes_to_write(host: Host, tmp_path: Path) -> None:
    deep = "def deep(n):\n    time.sleep(1000) if not n else deep(n - 1)\n"
    more = (
        "import threading\nfor _ in range(90): threading.Thread(target=deep, args=(90,), "
        "daemon=True).start()\n"
    )
    follower = host.follow()
    follower.start(run(script(tmp_path, LOAD + deep + more + "load_batch()\n")))
    follower.wait_for_text("at it")
    stack = ask(follower)[0]
    assert stack.source == "faulthandler"
    assert [frame.function for frame in frames(stack.text)] == ["load_batch", "<module>"]
    follower.close()


@pytest.mark.parametrize(
    "loop", ["sum(itertools.repeat(0))", "[None for _ in iter(int, 1) if False]"]
)
def test_one_that_never_lets_go_of_the_interpreter_tells_where(
    host: Host, tmp_path: Path, loop: str
) -> None:
    follower = host.follow()
    follower.start(
        run(script(tmp_path, f"import itertools\ndef spin():\n    {loop}\n{AT}\nspin()\n"))
    )
    follower.wait_for_text("at it")
    stack = ask(follower)[0]
    assert (stack.source, letter_of(stack)) == ("faulthandler", "R")
    assert "spin" in [frame.function for frame in frames(stack.text)]
    follower.stop(0.1)
    follower.exits(1)
    follower.close()


def test_a_stopped_rank_is_said_to_be_stopped_and_goes_on_unharmed(
    host: Host, tmp_path: Path
) -> None:
    follower = host.follow()
    path = script(tmp_path, LOAD + "load_batch()\n")
    follower.start(run(path), run(path, 1))
    for rank in range(2):
        follower.wait_for_text("at it", rank)
    os.kill(follower.pid(0), signal.SIGSTOP)
    wait(lambda: state_letter(follower.pid(0)) == "T", "the stop")
    stacks = ask(follower, 2)
    assert (stacks[0].source, letter_of(stacks[0])) == ("kernel", "T")
    assert "it is stopped, so" in stacks[0].text
    assert f"kill -CONT {follower.pid(0)}" in stacks[0].text
    assert stacks[1].source == "faulthandler"
    os.kill(follower.pid(0), signal.SIGCONT)
    wait(lambda: state_letter(follower.pid(0)) == "S", "the stop's end")
    stack = ask(follower, 2)[0]
    assert stack.source == "faulthandler"
    assert len(split_threads(stack.text)) == 2
    follower.close()


def test_what_could_die_of_the_signal_is_not_sent_it(host: Host, tmp_path: Path) -> None:
    own = (
        f"import os, signal, time\nos.open(os.devnull, 0)\nsignal.signal({SIGNAL}, lambda *_: "
        "print('hit', flush=True))\n"
    )
    own += f"{AT}\ntime.sleep(1000)"
    follower = host.follow()
    placements = [
        Placement(0, 0, ("sh", "-c", "echo at it; exec sleep 1000"), ()),
        Placement(1, 1, (sys.executable, "-I", "-c", f"import time; {AT}; time.sleep(1000)"), ()),
        Placement(2, 2, (sys.executable, "-I", "-c", own), ()),
        run(
            script(
                tmp_path, f"import os\nos.closerange(3, 100)\nimport time\n{AT}\ntime.sleep(1000)\n"
            ),
            3,
        ),
    ]
    follower.start(*placements)
    for rank in range(4):
        follower.wait_for_text("at it", rank)
    for _ in range(2):
        stacks = ask(follower, 4)
        assert {stack.source for stack in stacks.values()} == {"kernel"}
        assert "no Python program" in stacks[0].text
        assert all(
            letter_of(stack) == "S" and f"process {follower.pid(rank)}" in stack.text
            for rank, stack in stacks.items()
        )
    assert "hit" not in follower.text(2)
    follower.stop(0.1)
    assert {exit.signal for exit in follower.exits(4).values()} == {"SIGTERM"}
    follower.close()


def test_of_another_program_it_is_told_what_runs(host: Host) -> None:
    long_argument = "x" * 200
    follower = host.follow()
    follower.start(
        Placement(0, 0, ("sh", "-c", "echo at it; sleep 1000; exit 1"), ()),
        Placement(1, 1, ("sh", "-c", f"echo at it; sleep 1000; {long_argument}"), ()),
    )
    for rank in range(2):
        follower.wait_for_text("at it", rank)
    wait(lambda: all(descendants(follower.pid(rank)) for rank in range(2)), "the sleep of each")
    found = {rank: locate_rank(stack).program for rank, stack in ask(follower, 2).items()}
    assert found == dict.fromkeys(range(2), "sh -c …: sleep 1000")
    follower.stop(0.1)
    follower.close()


def test_a_command_is_told_in_short() -> None:
    assert shorten_command(["/bin/bash", "-c", "sleep 1"], words_shown=2) == "bash -c …"
    assert shorten_command(["sleep", "1"], words_shown=2) == "sleep 1"
    assert len(shorten_command(["sh", "x" * 200], words_shown=2)) <= LONGEST_COMMAND + 1


def test_below_a_shell_the_python_program_is_asked(host: Host, tmp_path: Path) -> None:
    path = script(tmp_path, LOAD + "load_batch()\n")
    follower = host.follow()
    follower.start(Placement(0, 0, ("sh", "-c", f"{sys.executable} {path}; echo over"), ()))
    follower.wait_for_text("at it")
    stack = ask(follower)[0]
    assert stack.source == "faulthandler"
    assert frames(stack.text)[0].function == "load_batch"
    assert f"process {follower.pid()}" not in stack.text
    follower.close()


def test_the_agent_goes_on_while_a_rank_is_slow_to_answer(host: Host, tmp_path: Path) -> None:
    """A main thread that does not take the signal for a second: it holds nobody up."""
    block = f"import signal, threading\nsignal.pthread_sigmask(signal.SIG_BLOCK, [{SIGNAL}])\n"
    follower = host.follow()
    follower.start(run(script(tmp_path, block + LOAD + "load_batch()\n")))
    follower.wait_for_text("at it")
    follower.send(Stacks())
    follower.send(StartAttempt(2, False, (python("pass"),)))  # refused, and said so at once
    wait(lambda: "still run" in follower.text(-1, "stderr"), "the answer to a command")
    assert not follower.of(Stack)
    stack = follower.wait_for(Stack)[0]
    assert stack.source == "kernel"
    assert "within 1 s" in stack.text
    follower.close()


def test_a_rank_that_ends_while_it_is_asked_is_said_to_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stacks, "_stack_file", lambda *_: "/proc/self/fd/1000000")
    monkeypatch.setattr(stacks, "_has_signal", lambda *_: 1)
    (stack,) = stacks.collect_stacks([stacks.StackSubject(0, os.getpid())], str(tmp_path))
    assert "it has just ended" in stack.text


def test_a_fork_answers_by_its_own_file_if_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [("/proc/7/fd/3", "/f/5 (deleted)"), ("/proc/7/fd/4", "/f/7 (deleted)")]
    monkeypatch.setattr(stacks, "open_files", lambda _: iter(files))
    assert stacks._stack_file(7, "/f") == "/proc/7/fd/4"
    assert stacks._stack_file(8, "/f") == "/proc/7/fd/3"
    assert stacks._stack_file(7, "/g") == ""


def test_a_rank_that_is_not_there_yet_is_told_by_what_starts_it(host: Host) -> None:
    preload = (
        "import sys; sys.path.insert(0, '.'); import os; from training.agent.host import stacks; "
    )
    preload += (
        "stacks.register(os.environ['RANKBOARD_FOLDER']); import time; os.write(2, b'at it\\n'); "
        "time.sleep(1000)"
    )
    follower = host.follow(
        preload=f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); {preload}"
    )
    follower.start(Placement(0, 0, (), ()), preload=True)
    wait(lambda: "at it" in follower.text(-1, "stderr"), "preload")
    assert not follower.of(Spawned)
    assert ask(follower)[0].source == "faulthandler"
    follower.close()


TRAIN = """
import os, time, torch, sitecustomize
from torch import distributed
distributed.init_process_group("gloo")
def load_batch():
    if os.environ["RANK"] == "1" and step == 1:
        print("loads", flush=True)
        time.sleep(1000)
    return torch.ones(4)
for step in range(3):
    distributed.all_reduce(load_batch())
    print(f"{sitecustomize.mine} step {step}", flush=True)
"""


def test_of_real_ranks_the_one_is_named_that_is_not_inside_a_collective(
    host: Host, tmp_path: Path
) -> None:
    script(tmp_path, "mine = 'our own site'\n", "sitecustomize.py")
    path = script(tmp_path, TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    follower = host.follow()
    follower.start(
        *(run(path, rank, RANK=str(rank), PYTHONPATH=str(tmp_path), **env) for rank in range(2))
    )
    follower.wait_for_text("loads", 1)
    follower.wait_for_text("our own site step 0", 0)
    stacks: dict[int, Stack] = {}

    def is_seen() -> bool:
        stacks.update(ask(follower, 2))
        return find_culprits({rank: locate_rank(stack) for rank, stack in stacks.items()}) == (1,)

    wait(is_seen, "the other to wait")
    assert {stack.source for stack in stacks.values()} == {"faulthandler"}
    assert [locate_rank(stacks[rank]).where for rank in range(2)] == [
        "all_reduce",
        "train.py:8, load_batch",
    ]
    follower.stop(0.1)
    follower.exits(2)
    follower.close()


# The path of a user's program ---------------------------------------------------------------------


def started(code: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path, "RANKBOARD_FOLDER": str(folder)}
    (folder / "stacks").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_users_own_sitecustomize_runs_as_it_would_have(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    script(theirs, "import builtins\nbuiltins.mine = __file__\n", "sitecustomize.py")
    tell = "import sys, sitecustomize; print(mine, sitecustomize.__file__, sys.path)"
    with_us, without = (started(tell, tmp_path, path) for path in (f"{SITE}:{theirs}", str(theirs)))
    assert with_us.stdout == without.stdout
    assert str(theirs) in with_us.stdout
    script(theirs, "raise ValueError('no')\n", "sitecustomize.py")
    with_us, without = (started(tell, tmp_path, path) for path in (f"{SITE}:{theirs}", str(theirs)))
    assert with_us.stderr.splitlines()[:2] == without.stderr.splitlines()[:2]
    assert "ValueError: no" in with_us.stderr


def test_without_one_nothing_is_shadowed_and_little_is_imported(tmp_path: Path) -> None:
    tell = "import sys; print(sys.path, sorted(sys.modules))"
    with_us, without = (started(tell, tmp_path, path) for path in (SITE, ""))
    paths, modules = with_us.stdout.split("] [")
    assert without.stdout.split("] [")[0] == paths
    assert set(re.findall(r"'(.*?)'", modules)) - set(re.findall(r"'(.*?)'", without.stdout)) <= {
        "sitecustomize",
        "faulthandler",
    }


def test_both_ways_to_register_agree(tmp_path: Path) -> None:
    text = (Path(SITE) / "sitecustomize.py").read_text()
    assert f"SIGNAL = {SIGNAL}\n" in text
    assert os.listdir(SITE) in (
        ["sitecustomize.py"],
        ["__pycache__", "sitecustomize.py"],
        ["sitecustomize.py", "__pycache__"],
    )
