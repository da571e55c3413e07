"""The probe: what the doctor starts on a host. It tells what an agent would, and is gone without a
trace."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.agents import ROOT, Follower, Host, host
from training.agent import OPERATOR_GONE
from training.wire.commands import Close, Reserve, Stacks
from training.wire.events import Ended, Hello, Reserved

__all__ = ["host"]

HASTY = (
    "import sys; from training.agent.errands import probe, table; probe.TICK, probe.LEASE = {}; "
    "sys.exit(table.main(sys.argv[1:]))"
)


def test_it_tells_the_facts_that_an_agent_tells(host: Host) -> None:
    probe, agent = host.probe(), host.follow()
    (said,), (known,) = probe.wait_for(Hello), agent.wait_for(Hello)
    moving = {
        "pid": 0,
        "memory_free": 0,
        "disk_free": 0,
        "load": 0.0,
        "route_address": "",
        "route_interface": "",
    }
    assert replace(said, **moving) == replace(known, **moving)  # type: ignore[arg-type]
    assert (said.route_address, known.route_address) == ("127.0.0.1", "")
    probe.close()
    agent.close()


def test_it_ends_when_told_and_keeps_nothing(host: Host) -> None:
    probe = host.probe()
    probe.send(Stacks())  # which is for agents
    records = probe.close()
    assert [record.event for record in records[1:]] == [Ended("closed")]
    assert [(record.host, record.attempt, record.seq) for record in records] == [
        (3, 0, 1),
        (3, 0, 2),
    ]
    assert not host.folder.exists()


def test_it_ends_with_its_operator(host: Host) -> None:
    probe = host.probe()
    probe.send(Reserve("127.0.0.1", 0))
    port = probe.wait_for(Reserved)[0].port
    assert probe.process.stdin
    probe.process.stdin.close()
    assert probe.rest()[-1].event == Ended(OPERATOR_GONE)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_port_that_is_taken_is_told(host: Host) -> None:
    probe = host.probe()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        probe.send(Reserve("127.0.0.1", taken.getsockname()[1]))
        (told,) = probe.wait_for(Reserved)
    assert told.port == 0
    assert "is in use by" in told.error
    probe.close()


def test_it_gives_signs_of_life_that_count_once(host: Host) -> None:
    probe = host.probe(HASTY.format("0.01, 60"))
    probe.wait_for(Hello, 3)
    probe.send(Close())
    assert {record.seq for record in probe.rest() if isinstance(record.event, Hello)} == {1}
    assert probe.records[-1].seq == 2


def test_without_a_word_for_long_it_ends(host: Host) -> None:
    assert host.probe(HASTY.format("0.01, 0.05")).wait_for(Ended) == [
        Ended(f"{OPERATOR_GONE}, no sign of life for 0.05 s")
    ]


def test_a_workdir_that_cannot_be_written_is_named(host: Host) -> None:
    program = (
        "import os, sys; os.access = lambda *_: False; from training.agent.errands import table; "
        "table.main(sys.argv[1:])"
    )
    assert complaint(host.probe(program)).startswith(
        f"cannot use its workdir: {host.folder.parent} is not writable"
    )


@pytest.mark.parametrize(
    "make", [Path.touch, lambda path: path.symlink_to("/no/such/disk")], ids=["file", "dangling"]
)
def test_what_lies_where_the_folder_is_to_be_is_named(
    host: Host, make: Callable[[Path], None]
) -> None:
    make(host.folder)
    assert complaint(host.probe()).startswith(f"cannot use its workdir: {host.folder} is no folder")


def complaint(probe: Follower) -> str:
    """What it says on stderr where it has nothing else to say."""
    assert probe.process.stderr
    said = probe.process.stderr.read().decode()
    assert probe.process.wait(10) == 1
    assert not probe.records
    return said


def test_it_imports_little() -> None:
    code = (
        "import sys; from training.agent import __main__; "
        "from training.agent.errands import probe; print(*sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {
        "argparse",
        "contextlib",
        "ctypes",
        "dataclasses",
        "inspect",
        "pathlib",
        "runpy",
        "subprocess",
        "threading",
    }
    heavy |= {"importlib.util", "typing"}
    assert not heavy & set(said.stdout.split())
