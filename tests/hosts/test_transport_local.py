"""The transport of `--local`: one process here per host."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.transport import Agent, Unreachable
from remote.transport.local import CLOSING, LocalLine, LocalTransport
from tests.kit.agents import ROOT
from tests.kit.standin import AN_AGENT, Heard, Reader, package
from training.wire.commands import Close, encode
from training.wire.events import Ended, Hello, decode

HOST = Host("here", "localhost", python="", timeout=20)


@pytest.fixture
def transport(tmp_path: Path) -> LocalTransport:
    return LocalTransport(package(tmp_path))


@pytest.fixture
def line(transport: LocalTransport) -> Iterator[LocalLine]:
    line = transport.open(HOST, AN_AGENT, Heard())
    yield line
    line.close()


def test_round_trip(transport: LocalTransport, tmp_path: Path) -> None:
    heard = Heard()
    line = transport.open(HOST, AN_AGENT, heard)
    reader = Reader(line)
    hello = reader.hello()
    line.write(b"one\ntwo\n")
    assert [next(reader), next(reader)] == ["echo one", "echo two"]
    assert (heard.phases, heard.texts) == (["starting"], [])
    assert hello["argv"] == list(AN_AGENT.argv())
    assert str(hello["code"]).startswith(str(tmp_path))
    assert hello["sid"] == hello["pid"]
    assert line.close() == ""
    assert line.read() == b""
    assert not psutil.pid_exists(int(str(hello["pid"])))


def test_large_bursts_on_both_streams(line: LocalLine) -> None:
    reader = Reader(line)
    reader.hello()
    line.write(b"stderr 1000000\nburst 3000000\n")
    assert next(reader) == "echo stderr 1000000"
    assert len(next(reader)) == 3000000
    assert next(reader) == "echo burst 3000000"
    assert set(line.close()) == {"e"}
    assert len(line.close()) < 5000


def test_noise_is_said(tmp_path: Path) -> None:
    heard = Heard()
    root = package(
        tmp_path,
        "print('hello from sitecustomize')\nprint('rankboard-agent 1', flush=True)\ninput()",
    )
    line = LocalTransport(root).open(HOST, AN_AGENT, heard)
    assert heard.texts == ["hello from sitecustomize"]
    line.close()


def test_agent_that_fails_at_its_start(tmp_path: Path) -> None:
    transport = LocalTransport(package(tmp_path, "raise ValueError('no such folder')"))
    with pytest.raises(
        Unreachable, match=r"^here: its agent ended at its start: ValueError: no such folder$"
    ):
        transport.open(HOST, AN_AGENT, Heard())


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


def test_close_while_reading_ends_the_read(line: LocalLine) -> None:
    Reader(line).hello()
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(line.read()))
    thread.start()
    line.close()
    thread.join(10)
    assert read == [b""]


def test_close_does_not_wait_for_a_follower_that_stays(line: LocalLine) -> None:
    pid = int(str(Reader(line).hello()["pid"]))
    line.write(b"stay\n")
    start = time.monotonic()
    line.close()
    assert time.monotonic() - start < CLOSING + 2
    assert not psutil.pid_exists(pid)


def test_commands_before_close_arrive(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f"print('rankboard-agent 1', flush=True)\nopen({str(mark)!r}, 'w').write(input())\n"
    line = LocalTransport(package(tmp_path, source)).open(HOST, AN_AGENT, Heard())
    line.write(b"last words\n")
    line.close()
    assert mark.read_text() == "last words"


def test_agent_that_is_killed(line: LocalLine) -> None:
    pid = int(str(Reader(line).hello()["pid"]))
    os.kill(pid, 9)
    assert line.read() == b""
    with pytest.raises(OSError, match="Broken pipe"):
        line.write(b"x" * 100000)
    line.close()
    with pytest.raises(OSError, match="closed"):
        line.write(b"x")


def test_the_real_agent(tmp_path: Path) -> None:
    agent = Agent(
        folder=str(tmp_path / "run"), run="r", host=0, route_to="127.0.0.1", cwd=str(tmp_path)
    )
    reader = Reader(LocalTransport().open(HOST, agent, Heard()))
    hello = decode(next(reader))
    assert hello is not None
    assert isinstance(hello.event, Hello)
    reader.line.write(encode(Close()))
    record = decode(next(reader))
    while record and not isinstance(record.event, Ended):
        record = decode(next(reader))
    assert reader.line.read() == b""
    assert reader.line.close() == ""


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


def test_no_descriptor_is_left(transport: LocalTransport) -> None:
    transport.open(HOST, AN_AGENT, Heard()).close()
    before = psutil.Process().num_fds()
    transport.open(HOST, AN_AGENT, Heard()).close()
    assert psutil.Process().num_fds() == before
