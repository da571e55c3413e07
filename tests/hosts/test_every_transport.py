"""What every transport does alike. A new transport needs a row in `STAGES` and passes all of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import TRANSPORTS, Host
from remote.transport import AgentCommand, Channel, HostCommand, Transport, Unreachable
from remote.transport.local import LocalTransport
from remote.transport.slurm import SlurmTransport
from remote.transport.ssh.transport import SshTransport
from tests.kit.sshd import free_port
from tests.kit.standin import AN_AGENT, Heard, Reader, package
from tests.kit.wait import wait
from training.wire.commands import Close, encode
from training.wire.events import decode
from training.wire.host_events import AgentEnded, Hello


@dataclass(frozen=True)
class Stage:
    """A transport with hosts: `make` gives it with the code of a package folder, None: our own.
    `host` can be reached and `absent` cannot; `cut` breaks the connection to the agent of a pid."""

    make: Callable[[Path | None], Transport]
    host: Host
    absent: Host
    cut: Callable[[int], None]


def local(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    def make(code: Path | None) -> Transport:
        return LocalTransport(code) if code else LocalTransport()

    host = Host("node1", "localhost", python="", workdir=str(tmp_path / "node1"), timeout=20)
    return Stage(make, host, replace(host, python="/no/such/python"), lambda pid: os.kill(pid, 9))


def ssh(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    sshd = request.getfixturevalue("sshd")

    def make(code: Path | None) -> Transport:
        return SshTransport(code) if code else SshTransport()

    (host,) = sshd.make_hosts(1)
    absent = replace(host, port=free_port(host.address))
    return Stage(make, host, absent, lambda pid: sshd.node("node1").cut())


def slurm(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    cluster = request.getfixturevalue("slurm")

    def make(code: Path | None) -> Transport:
        return SlurmTransport(code) if code else SlurmTransport()

    def cut(_: int) -> None:
        for process in psutil.Process().children():
            if process.name() == "srun":
                process.kill()

    host, _, other = cluster.hosts(cluster.allocate(2), tmp_path)
    return Stage(make, host, other, cut)


STAGES = {"local": local, "slurm": slurm, "ssh": ssh}


@pytest.fixture(params=TRANSPORTS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return STAGES[request.param](request, tmp_path)


@pytest.fixture
def channel(stage: Stage, tmp_path: Path) -> Iterator[Channel]:
    """A connection to the stand-in."""
    channel = stage.make(package(tmp_path)).open(stage.host, AN_AGENT, Heard())
    yield channel
    channel.close()


def pid_of(reader: Reader) -> int:
    return int(str(reader.hello()["pid"]))


def refusal(stage: Stage, host: Host, code: Path) -> str:
    with pytest.raises(Unreachable) as caught:
        stage.make(code).open(host, AN_AGENT, Heard())
    text = str(caught.value)
    assert text.startswith(f"{host.name}: ")
    assert len(text.splitlines()) <= 2
    return text


def test_what_is_written_arrives_and_is_answered(stage: Stage, tmp_path: Path) -> None:
    heard = Heard()
    channel = stage.make(package(tmp_path)).open(stage.host, AN_AGENT, heard)
    reader = Reader(channel)
    hello = reader.hello()
    channel.write(b"one\ntwo\n")
    assert [next(reader), next(reader)] == ["echo one", "echo two"]
    assert hello["argv"] == list(AN_AGENT.argv())
    assert set(heard.phases) <= {"connecting", "deploying", "starting"}
    assert heard.phases[-1] == "starting"
    assert heard.texts == []
    assert channel.close() == ""


def test_after_close_nothing_is_read_or_written(channel: Channel) -> None:
    Reader(channel).hello()
    assert channel.close() == channel.close() == ""
    assert channel.read() == b""
    with pytest.raises(OSError, match="closed"):
        channel.write(b"x")


def test_large_bursts_on_both_streams(channel: Channel) -> None:
    reader = Reader(channel)
    reader.hello()
    channel.write(b"stderr 3000000\nburst 3000000\n")
    assert next(reader) == "echo stderr 3000000"
    assert len(next(reader)) == 3000000
    assert next(reader) == "echo burst 3000000"
    said = channel.close()
    assert set(said) == {"e"}
    assert len(said) < 5000


def test_close_sends_what_was_written_first(stage: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = "print('rankboard-agent 1', flush=True)\n"
    source += f"open({str(mark)!r}, 'w').write(sys.stdin.read())"
    code = package(tmp_path / "other", f"import sys\n{source}")
    channel = stage.make(code).open(stage.host, AN_AGENT, Heard())
    channel.write(b"last words\n")
    channel.close()
    assert mark.read_text() == "last words\n"


def test_close_ends_a_read_of_another_thread(channel: Channel) -> None:
    Reader(channel).hello()
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(channel.read()))
    thread.start()
    channel.close()
    thread.join(10)
    assert read == [b""]


def test_an_agent_that_ends_says_why(channel: Channel) -> None:
    reader = Reader(channel)
    reader.hello()
    channel.write(b"stderr 3\nexit 4\n")
    assert next(reader) == "echo stderr 3"
    with pytest.raises(EOFError):
        next(reader)
    assert channel.close() == "eee"


def test_a_connection_that_is_cut_ends_read_and_write(stage: Stage, channel: Channel) -> None:
    stage.cut(pid_of(Reader(channel)))
    assert channel.read() == b""
    with pytest.raises(OSError, match=r"."):
        channel.write(b"x" * 10_000_000)  # more than any buffer on the way holds


def test_an_errand_answers_and_ends(stage: Stage) -> None:
    errand = HostCommand(("runs", stage.host.workdir))
    channel = stage.make(None).open(stage.host, errand, Heard())
    said = b""
    while data := channel.read():
        said += data
    assert channel.close() == ""
    assert said.endswith(b'{"whole":true}\n')


def test_the_real_agent_closes_its_run(stage: Stage, tmp_path: Path) -> None:
    agent = AgentCommand(str(tmp_path / "run"), "r", 0, route_to="127.0.0.1", cwd=str(tmp_path))
    reader = Reader(stage.make(None).open(stage.host, agent, Heard()))
    events = [_event(next(reader))]
    reader.channel.write(encode(Close()))
    with suppress(EOFError):
        while True:
            events.append(_event(next(reader)))
    assert isinstance(events[0], Hello)
    assert isinstance(events[-1], AgentEnded)
    assert reader.channel.close() == ""


def _event(line: str) -> object:
    record = decode(line)
    assert record
    return record.event


def test_what_is_printed_before_the_agent_speaks_is_said(stage: Stage, tmp_path: Path) -> None:
    source = "print('hello from sitecustomize')\nprint('rankboard-agent 1', flush=True)\ninput()"
    heard = Heard()
    stage.make(package(tmp_path, source)).open(stage.host, AN_AGENT, heard).close()
    assert heard.texts == ["hello from sitecustomize"]


def test_a_host_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    refusal(stage, stage.absent, package(tmp_path))


def test_a_python_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    text = refusal(stage, replace(stage.host, python="/no/such/python"), package(tmp_path))
    assert "/no/such/python" in text
    assert "No such file or directory" in text
    assert "set python" in text


def test_an_agent_that_fails_at_its_start(stage: Stage, tmp_path: Path) -> None:
    text = refusal(stage, stage.host, package(tmp_path, "raise ValueError('no such folder')"))
    assert "its agent ended at its start" in text
    assert text.endswith(": ValueError: no such folder")


def test_an_agent_that_says_nothing(stage: Stage, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    source = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    code = package(tmp_path, source)
    assert " 0.7 s" in refusal(stage, replace(stage.host, timeout=0.7), code)
    if pid.exists() and pid.read_text():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), 9)


def test_close_leaves_no_process_thread_or_descriptor(stage: Stage, tmp_path: Path) -> None:
    transport, here = stage.make(package(tmp_path)), psutil.Process()
    transport.open(stage.host, AN_AGENT, Heard()).close()
    before = here.num_fds(), threading.active_count()
    channel = transport.open(stage.host, AN_AGENT, Heard())
    pid = pid_of(Reader(channel))
    channel.close()
    wait(lambda: not psutil.pid_exists(pid), "its process is gone")
    wait(
        lambda: here.num_fds() <= before[0] and threading.active_count() <= before[1],
        "its descriptors and threads are gone",
    )
