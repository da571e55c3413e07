"""The errand `check`: what the doctor starts on a host. It keeps nothing there."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit.agents import ROOT, Follower, Host
from training.agent import WHOLE
from training.wire.commands import Reserve, Stacks
from training.wire.host_events import Hello, Reserved
from training.wire.jsonl import load

HASTY = (
    "import sys; from training.agent.host_commands import check, command_table; "
    "check.PATIENCE = {}; "
    "sys.exit(command_table.main(sys.argv[1:]))"
)


def test_its_facts_are_those_of_an_agent(host: Host) -> None:
    errand, agent = host.check(), host.follow()
    (said,), (known,) = errand.wait_for(Hello), agent.wait_for(Hello)
    moving = {
        "pid": 0,
        "memory_free": 0,
        "disk_free": 0,
        "load": 0.0,
        "busiest": (),
        "route_address": "",
        "route_interface": "",
    }
    assert replace(said, **moving) == replace(known, **moving)  # type: ignore[arg-type]
    assert (said.route_address, known.route_address) == ("127.0.0.1", "")
    errand.close()
    agent.close()


def test_it_ends_at_close_and_keeps_nothing(host: Host) -> None:
    errand = host.check()
    errand.send(Stacks())  # which is for agents
    assert [type(record.event) for record in errand.close()] == [Hello]
    assert load(errand.lines[-1]) == WHOLE, "as every errand does"
    assert not host.folder.exists()


def test_it_ends_with_its_operator(host: Host) -> None:
    errand = host.check()
    errand.send(Reserve("127.0.0.1", 0))
    port = errand.wait_for(Reserved)[0].port
    assert errand.process.stdin
    errand.process.stdin.close()
    errand.rest()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_port_that_is_taken_is_named(host: Host) -> None:
    errand = host.check()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        errand.send(Reserve("127.0.0.1", taken.getsockname()[1]))
        (answer,) = errand.wait_for(Reserved)
    assert answer.port == 0
    assert "is in use by" in answer.error
    errand.close()


def test_without_a_command_for_long_it_ends(host: Host) -> None:
    assert host.check(HASTY.format(0.05)).rest()


def test_a_workdir_that_cannot_be_written_is_named(host: Host) -> None:
    program = (
        "import os, sys; os.access = lambda *_: False; "
        "from training.agent.host_commands import command_table; "
        "command_table.main(sys.argv[1:])"
    )
    assert complaint(host.check(program)).startswith(
        f"cannot use its workdir: {host.folder.parent} is not writable"
    )


@pytest.mark.parametrize(
    "make", [Path.touch, lambda path: path.symlink_to("/no/such/disk")], ids=["file", "dangling"]
)
def test_what_lies_where_the_folder_is_to_be_is_named(
    host: Host, make: Callable[[Path], None]
) -> None:
    make(host.folder)
    assert complaint(host.check()).startswith(
        f"cannot use its workdir: {host.folder} is not a folder"
    )


def complaint(errand: Follower) -> str:
    """The error that it answers where it has no facts."""
    assert errand.rest() == []
    answer = load(errand.lines[0])
    assert answer
    return str(answer["error"])


def test_it_imports_little() -> None:
    code = (
        "import sys; from training.agent import __main__; "
        "from training.agent.host_commands import check; print(*sys.modules)"
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
