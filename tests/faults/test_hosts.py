"""What happens to one host of three, or is wrong with it from the start."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.faults import broken
from tests.faults.proof import ENDING, FINISHED, MEETING, SHORT, Expected, Stage
from tests.kit.launches import LONG
from tests.kit.slow import slow
from tests.kit.sshd import Sshd, small_disk

LOST = Expected("lost", 3, "node3")

# In the middle of a run ---------------------------------------------------------------------------


def test_agent_killed(stage: Stage) -> None:
    training = stage.train(*MEETING)
    os.kill(training.agents["node3"], signal.SIGKILL)
    expected = replace(LOST, says=("the agent died: SIGKILL",))
    stage.prove("agent of node3 killed", training.run, expected, time.monotonic())


@slow
def test_agent_told_to_terminate(stage: Stage) -> None:
    """Not by us: as by the shutdown of its host."""
    training = stage.train()
    os.kill(training.agents["node3"], signal.SIGTERM)
    expected = replace(LOST, says=("told to terminate (SIGTERM)",))
    stage.prove("SIGTERM to the agent of node3", training.run, expected, time.monotonic())


@slow
def test_guard_killed(stage: Stage) -> None:
    training = stage.train()
    psutil.Process(training.agents["node3"]).parent().kill()
    expected = replace(LOST, says=("the guard died",))
    stage.prove("guard of node3 killed", training.run, expected, time.monotonic())


@slow
def test_connection_killed(stage: Stage) -> None:
    """The sshd that serves the connection is killed; its daemon takes a new one."""
    training = stage.train()
    stage.sshd.node("node3").cut()
    cut = time.monotonic()
    training.run.events("step", 200)
    training.run.process.send_signal(signal.SIGINT)
    stage.prove("connection of node3 killed", training.run, Expected("stopped", 130), cut)


@slow
def test_sshd_killed(stage: Stage) -> None:
    """With its connections, and for good: the agent there stops its rank by itself."""
    training = stage.train()
    stage.sshd.node("node3").stop()
    try:
        expected = replace(LOST, cut_off=("node3",))
        stage.prove("sshd of node3 killed", training.run, expected, time.monotonic())
    finally:
        stage.sshd.node("node3").start()


@slow
def test_disk_full(stage: Stage) -> None:
    """Somebody fills the disk of the work folder: the last records are written in the place of the
    reserve."""
    with small_disk(stage.sshd.node("node3"), stage.hosts["node3"].workdir, "8m") as disk:
        stage.places["node3"] = disk
        training = stage.train(*LONG, "--no-doctor")  # which finds so small a disk at once
        fill(disk / "filler")
        expected = replace(LOST, says=("the disk is full",))
        stage.prove("disk of node3 full", training.run, expected, time.monotonic())


def fill(path: Path) -> None:
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


# From the start -----------------------------------------------------------------------------------


def refuse(stage: Stage, fault: str, expected: Expected) -> None:
    """Prove that a run does not start."""
    began = time.monotonic()
    ending = stage.prove(fault, stage.launch(*SHORT), expected, began)
    assert ending.summary["steps"] in (0, None)


@slow
def test_python_missing(stage: Stage) -> None:
    stage.change("node3", lambda host, _: replace(host, python="/nowhere/python3"))
    expected = Expected("refused", 2, "node3", says=("/nowhere/python3",))
    refuse(stage, "python missing on node3", expected)


@slow
def test_torch_missing(stage: Stage) -> None:
    stage.change("node3", broken.without_torch)
    refuse(
        stage,
        "torch missing on node3",
        Expected("refused", 2, "node3", says=("has no torch", "pip install")),
    )


def test_other_torch(stage: Stage) -> None:
    stage.change("node3", broken.with_torch, "1.13.1")
    refuse(stage, "another torch on node3", Expected("refused", 2, "node3", says=("1.13.1",)))


@slow
def test_master_port_taken(stage: Stage) -> None:
    with socket.create_server((stage.hosts["node1"].address, 0)) as stranger:
        port = stranger.getsockname()[1]
        stage.change("node1", lambda host, _: replace(host, master_port=port))
        expected = Expected(
            "refused", 2, "node1", says=(str(port), f"(pid {os.getpid()})", "master_port")
        )
        refuse(stage, "master port taken by a stranger", expected)


def test_host_key_changed(stage: Stage) -> None:
    swap_keys(stage.sshd, "node3", "node4")
    refuse(
        stage,
        "host key of node3 changed",
        replace(LOST, says=("host key has CHANGED", "--replace node3")),
    )


def swap_keys(sshd: Sshd, *names: str) -> None:
    """Let the user know one host by the other's key, and no key of the other."""
    known, other = (sshd.node(name) for name in names)
    lines = sshd.known_hosts.read_text().splitlines(keepends=True)
    changed = [line.replace(known.public_key, other.public_key) for line in lines]
    assert changed != lines
    sshd.known_hosts.write_text("".join(changed))


@slow
@pytest.mark.skipif(not broken.faketime(), reason="needs Debian's package faketime")
def test_clock_an_hour_off(stage: Stage) -> None:
    stage.change("node3", broken.with_clock, "+1h")
    began = time.monotonic()
    ending = stage.prove("clock of node3 1 h ahead", stage.launch(*SHORT), FINISHED, began)
    offsets = {host["name"]: host["clock_offset"] for host in ending.summary["hosts"]}
    assert offsets["node3"] == pytest.approx(3600, abs=30)
    assert abs(offsets["node2"]) < 30
    assert ending.summary["elapsed"] < 600


# Two at once --------------------------------------------------------------------------------------


@slow
def test_two_runs_at_once(stage: Stage) -> None:
    """Both on the same hosts, the one stopped while the other goes on."""
    one, other = stage.launch(*LONG, name="one"), stage.launch(*SHORT, name="other")
    began = time.monotonic()
    one.events("step", 20)
    ended = other.end(ENDING)
    one.events("step", 20)
    one.process.send_signal(signal.SIGINT)
    stage.prove("two runs at once: stopped", one, Expected("stopped", 130), began)
    stage.judge("two runs at once: to the end", other, ended, FINISHED, time.monotonic() - began)
