"""The whole program: the real command, real agents, real ranks, over a real sshd and without one;
and what kills them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.launches import IDLE, LONG, QUICK, RANKBOARD, launch, left_behind, run
from tests.kit.slow import slow
from tests.kit.sshd import Sshd
from tests.kit.wait import wait

LOCAL = ("--local", "4")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Whatever a test did, none of its processes is there afterwards."""
    yield
    try:
        wait(lambda: not left_behind(tmp_path), "the end of all that it has started", 20)
    finally:
        for process in left_behind(tmp_path):
            process.kill()


def over_ssh(sshd: Sshd, count: int, slots: int = 1) -> tuple[str, ...]:
    return ("--hosts", str(sshd.hosts_toml(sshd.make_hosts(count, slots))))


def losses(output: str) -> dict[tuple[int, int], float]:
    events = [json.loads(line) for line in output.splitlines()]
    return {
        (event["rank"], event["step"]): event["loss"]
        for event in events
        if event["event"] == "step"
    }


# It trains ----------------------------------------------------------------------------------------


def test_ssh_run_ends_with_the_table(sshd: Sshd, tmp_path: Path) -> None:
    words = (*over_ssh(sshd, 2, slots=2), "--sync", "ddp", *QUICK, "--steps", "45")
    done = run(tmp_path, "--run", *words)
    assert done.returncode == 0, done.stderr
    assert "iter 2-40" in done.stdout
    (folder,) = (tmp_path / "runs").glob("[!.]*")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["verdict"] == "finished"
    assert [rank["host"] for rank in summary["ranks"]] == ["node1", "node1", "node2", "node2"]
    assert all(
        rank["timing_rule"] > 0 and 0 < rank["test_accuracy"] <= 1 for rank in summary["ranks"]
    )
    assert {path.name for path in (folder / "logs").iterdir()} >= {
        f"rank-{rank}.log" for rank in range(4)
    }
    assert (folder.stat().st_mode & 0o777) == 0o700


def test_code_is_uploaded_once(sshd: Sshd, tmp_path: Path) -> None:
    """Also by runs that are refused once their hosts are ready."""
    words = (*over_ssh(sshd, 1), "--dataset", "imagefolder:/nowhere/photos")
    for phases in (["starting", "deploying", "starting", "ready"], ["starting", "ready"]):
        done = run(tmp_path, "--run", "--json", *words)
        assert done.returncode == 2, done.stderr
        told = [json.loads(line) for line in done.stdout.splitlines()]
        reached = [event["phase"] for event in told if event["event"] == "reaching"]
        assert reached == ["connecting", *phases]


@slow
def test_all_reduce_and_ddp_give_equal_losses(tmp_path: Path) -> None:
    """LeNet-5 has no BatchNorm. An uneven batch, so that shares differ."""
    both = []
    for sync in ("ddp", "all_reduce"):
        done = run(
            tmp_path,
            "--run",
            "--json",
            *LOCAL,
            "--sync",
            sync,
            *QUICK,
            "--steps",
            "30",
            "--batch-size",
            "50",
        )
        assert done.returncode == 0, done.stderr
        both.append(losses(done.stdout))
    assert len(both[0]) == 4 * 30
    assert both[0].keys() == both[1].keys()
    assert max(abs(both[0][key] - both[1][key]) for key in both[0]) <= 1e-4


LIGHT = """
import sys
from tui.commands.cli import main
try:
    main()
finally:
    found = {"torch", "textual", "paramiko", "numpy"} & set(sys.modules)
    assert not found, found
"""
"""The command, which fails where it has imported what is slow to import."""


def test_json_lines_carry_what_is_promised_and_the_launcher_imports_neither_torch_nor_textual(
    tmp_path: Path,
) -> None:
    words = ("--run", "--json", "--local", "2", *QUICK, "--epochs", "1", "--batch-size", "512")
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line, parse_constant=pytest.fail) for line in done.stdout.splitlines()]
    assert all({"event", "time", "host"} <= event.keys() for event in events)
    steps = [event for event in events if event["event"] == "step"]
    assert {(event["rank"], event["step"]) for event in steps} == {
        (rank, step) for rank in (0, 1) for step in (1, 2, 3)
    }
    for event in steps:
        assert event["seconds"] == pytest.approx(event["data"] + event["compute"] + event["sync"])
    evaluated = [event for event in events if event["event"] == "evaluated"]
    assert {event["samples"] for event in evaluated} == {360}
    assert len({(event["loss"], event["accuracy"]) for event in evaluated}) == 1
    assert {"hostsample", "hello", "exited", "ended"} <= {event["event"] for event in events}


# It ends ------------------------------------------------------------------------------------------


# Over SSH, with these faults and others, see tests/faults.


def test_killed_launcher_leaves_nothing(tmp_path: Path) -> None:
    running = launch(tmp_path, "--local", "2", *IDLE)
    running.events("text", 2)
    assert len(left_behind(tmp_path)) > 3
    running.process.kill()
    running.end()  # and the fixture looks


def test_host_that_does_not_answer(sshd: Sshd, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hosts = sshd.make_hosts(4)
        silent = replace(hosts[0], name="mute", port=mute.getsockname()[1], timeout=2.0)
        done = run(tmp_path, "--run", "--hosts", str(sshd.hosts_toml((*hosts[:3], silent))), *QUICK)
    assert done.returncode == 3
    assert "mute" in done.stderr
    assert "2 s" in done.stderr


def test_all_unreachable_hosts_are_named_at_once(sshd: Sshd, tmp_path: Path) -> None:
    hosts = [
        replace(host, port=1) if host.name in ("node2", "node4") else host
        for host in sshd.make_hosts(4)
    ]
    done = run(tmp_path, "--run", "--hosts", str(sshd.hosts_toml(tuple(hosts))), *QUICK)
    assert done.returncode == 3
    assert "node2" in done.stderr
    assert "node4" in done.stderr


# What a newcomer does first -----------------------------------------------------------------------


def mistake(folder: Path, *words: str, code: int = 2) -> str:
    """What is said to a mistake: in a few lines, without a traceback."""
    done = run(folder, *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_no_hosts_file(tmp_path: Path) -> None:
    said = mistake(tmp_path, "--run")
    assert "hosts.toml" in said
    assert "--local" in said


def test_typo_in_a_key(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nadress = "10.0.0.1"\n')
    said = mistake(tmp_path, "--run")
    assert "did you mean 'address'" in said


def test_unknown_sync_method(tmp_path: Path) -> None:
    assert "did you mean 'all_reduce'" in mistake(tmp_path, "--run", *LOCAL, "--sync", "allreduce")


def test_batch_smaller_than_the_ranks(tmp_path: Path) -> None:
    assert "--batch-size 3 is smaller than the 4 ranks" in mistake(
        tmp_path, "--run", *LOCAL, "--batch-size", "3"
    )


def test_dashboard_without_a_terminal(tmp_path: Path) -> None:
    assert "--run" in mistake(tmp_path, *LOCAL)


def test_wrong_key_file(sshd: Sshd, tmp_path: Path) -> None:
    (host,) = sshd.make_hosts(1)
    path = sshd.hosts_toml((replace(host, identity_file=str(tmp_path / "none")),))
    said = mistake(tmp_path, "--run", "--hosts", str(path), code=3)
    assert "node1" in said
    assert str(tmp_path / "none") in said


def test_unknown_host_key(sshd: Sshd, tmp_path: Path) -> None:
    sshd.known_hosts.write_text("")
    said = mistake(tmp_path, "--run", *over_ssh(sshd, 1), code=3)
    assert "SHA256:" in said
    assert re.search(r"rankboard trust --hosts \S+ node1$", said, re.MULTILINE)


def test_python_without_torch(sshd: Sshd, tmp_path: Path) -> None:
    bare = tmp_path / "python-without-torch"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S -I "$@"\n')
    bare.chmod(0o755)
    hosts = [replace(host, python=str(bare)) for host in sshd.make_hosts(2)]
    said = mistake(tmp_path, "--run", "--hosts", str(sshd.hosts_toml(tuple(hosts))), *QUICK)
    assert "node1" in said
    assert "node2" in said
    assert "no torch" in said


def test_no_python_at_all(sshd: Sshd, tmp_path: Path) -> None:
    (host,) = sshd.make_hosts(1)
    path = sshd.hosts_toml((replace(host, python="/nowhere/python3"),))
    said = mistake(tmp_path, "--run", "--hosts", str(path))
    assert "node1" in said
    assert "/nowhere/python3" in said
    assert f"for it in {path}" in said, "the file that was given"


def test_data_that_no_host_has_are_told_once_before_anything_is_started(
    sshd: Sshd, tmp_path: Path
) -> None:
    missing = ("--dataset", "imagefolder:/nowhere/photos")
    told = (
        "node1, node2 and node3: /nowhere/photos: No such file or directory; write imagefolder:PATH"
    )
    said = mistake(tmp_path, "--run", *over_ssh(sshd, 3), *missing)
    assert said.count(told) == said.count("No such file") == 1
    assert "training after" not in said
    done = run(tmp_path, "doctor", *over_ssh(sshd, 3), *missing)
    assert done.returncode == 2
    assert done.stdout.count("all hosts: data failed: /nowhere/photos: No such file") == 1
    assert "▲ all hosts: address: the same machine" in done.stdout


def test_master_port_in_use(sshd: Sshd, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hosts = [replace(host, master_port=port) for host in sshd.make_hosts(2)]
        said = mistake(tmp_path, "--run", "--hosts", str(sshd.hosts_toml(tuple(hosts))), *QUICK)
    assert "node1" in said
    assert str(port) in said
    assert "master_port" in said


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "--dry-run", *LOCAL, "--sync", "all_reduce")
    assert done.returncode == 0
    assert done.stdout.count("--sync all_reduce") == 1
    assert "MASTER_PORT='<chosen on local>'" in done.stdout
    assert not (tmp_path / "runs").exists()


# What it costs to start ---------------------------------------------------------------------------


BUSY = """
memory = b"x" * 120_000_000
while True:
    pass
"""


def test_ranks_are_sampled_and_keep_the_launchers_own_niceness_and_a_killed_one_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(BUSY)
    running = launch(tmp_path, "--local", "2", "--", "train.py")
    agent = running.events("hello")[0]["pid"]
    ranks = {event["rank"]: event["pid"] for event in running.events("spawned", 2)}
    busy: set[int] = set()
    while len(busy) < 2:  # one that has just been started may not have had a turn yet
        (sample,) = running.events("ranksample")
        if sample["memory"] > 10**8 and sample["cpu"] > 0:
            busy.add(sample["rank"])
    assert busy == {0, 1}
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in ranks.values()} == {mine}
    assert os.getpriority(os.PRIO_PROCESS, running.process.pid) == min(19, mine + 10)
    assert os.getpriority(os.PRIO_PROCESS, agent) == min(19, mine + 10)
    os.kill(ranks[1], signal.SIGKILL)
    assert running.end() == 1
    cause = running.summary()["cause"]
    assert (cause["host"], cause["rank"]) == ("local", 1)
    assert "SIGKILL" in cause["what"]
    assert "rank 1: killed by SIGKILL" in running.stderr()


FRONT_ENDS = pytest.mark.parametrize("front_end", [(), ("--run",)], ids=["dashboard", "headless"])


@FRONT_ENDS
def test_closed_terminal_stops_the_run(front_end: tuple[str, ...], tmp_path: Path) -> None:
    pid, terminal = in_a_terminal(tmp_path, "--local", "2", *LONG, *front_end)
    wait(lambda: says_meanwhile(b'"launched"', terminal, tmp_path), "ranks")
    os.close(terminal)
    wait(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "the end of the launcher")
    (summary,) = tmp_path.glob("runs/*/summary.json")
    assert json.loads(summary.read_text())["verdict"] == "stopped"


@FRONT_ENDS
def test_a_kept_run_goes_on_when_its_launcher_is_terminated(
    front_end: tuple[str, ...], tmp_path: Path
) -> None:
    """As at a shutdown of the laptop, before its network goes."""
    pid, terminal = in_a_terminal(
        tmp_path, "--local", "2", "--on-disconnect", "keep", *front_end, *IDLE
    )
    wait(lambda: says_meanwhile(b'"idle"', terminal, tmp_path), "ranks")
    os.kill(pid, signal.SIGTERM)
    wait(
        lambda: says_meanwhile(b"", terminal, tmp_path) and os.waitpid(pid, os.WNOHANG) == (pid, 0),
        "the end of the launcher",
    )
    os.close(terminal)
    assert len(left_behind(tmp_path)) > 3
    assert run(tmp_path, "stop", "last").returncode == 0


def in_a_terminal(folder: Path, *words: str) -> tuple[int, int]:
    """`rankboard` there, in a terminal of its own: its pid, and the terminal's other end, which
    does not block."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        os.execv(RANKBOARD, [RANKBOARD, *words])
    os.set_blocking(terminal, False)
    return pid, terminal


def says_meanwhile(event: bytes, terminal: int, folder: Path) -> bool:
    """Whether a run has recorded this, while the terminal takes what is drawn."""
    with contextlib.suppress(OSError):
        os.read(terminal, 65536)
    return any(event in file.read_bytes() for file in folder.glob("runs/*/events.jsonl"))


def test_hosts_and_local_exclude_each_other(tmp_path: Path) -> None:
    assert "cannot be combined" in mistake(tmp_path, "--run", *LOCAL, "--hosts", "hosts.toml")
