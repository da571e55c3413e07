"""The transport of `--local`: one process here per host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.transport import Unreachable
from remote.transport.local import LocalTransport
from remote.transport.process_channel import ProcessChannel
from tests.kit.agents import ROOT
from tests.kit.standin import AN_AGENT, Heard, Reader, package

HOST = Host("here", "localhost", python="", timeout=20)


@pytest.fixture
def transport(tmp_path: Path) -> LocalTransport:
    return LocalTransport(package(tmp_path))


@pytest.fixture
def line(transport: LocalTransport) -> Iterator[ProcessChannel]:
    line = transport.open(HOST, AN_AGENT, Heard())
    yield line
    line.close()


def test_an_agent_runs_this_code_in_a_session_of_its_own(
    line: ProcessChannel, tmp_path: Path
) -> None:
    hello = Reader(line).hello()
    assert str(hello["code"]).startswith(str(tmp_path))
    assert hello["sid"] == hello["pid"]


def test_agent_that_says_nothing(tmp_path: Path) -> None:
    transport = LocalTransport(
        package(tmp_path, "import time\nprint('wait', flush=True)\ntime.sleep(60)")
    )
    with pytest.raises(Unreachable, match=r"^here: its agent said nothing for 0\.3 s"):
        transport.open(replace(HOST, timeout=0.3), AN_AGENT, Heard())


def test_python_that_is_not_there(transport: LocalTransport) -> None:
    with pytest.raises(
        Unreachable, match=r"^here: cannot start /no/python: No such file or directory; set python"
    ):
        transport.open(replace(HOST, python="/no/python"), AN_AGENT, Heard())


def test_close_does_not_wait_for_a_follower_that_stays(line: ProcessChannel) -> None:
    pid = int(str(Reader(line).hello()["pid"]))
    line.write(b"stay\n")
    line.close()
    assert not psutil.pid_exists(pid)


NICE = """
import os, sys
from pathlib import Path
from tests.kit.standin import AN_AGENT, Heard, Reader
from tests.hosts.test_transport_local import HOST
from remote.transport.local import LocalTransport
transport = LocalTransport(Path(sys.argv[1]))
mine = os.nice(0)
os.nice(7)
line = transport.open(HOST, AN_AGENT, Heard())
print(Reader(line).hello()["nice"] - mine, os.nice(0) - mine)
line.close()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="niceness belongs to a thread on Linux only"
)
def test_ranks_keep_the_niceness_that_the_launcher_gives_up(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", NICE, str(package(tmp_path))]
    done = subprocess.run(
        words, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0 7\n"
