"""What the cases share: the commands in this process, against players in place of SSH; and servers
for the real command."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tui
from remote.cluster.hosts import Host
from tests.hostile.launcher import Command, measured
from tests.kit.scripted_hosts import Hosts, Keys
from training.wire.jsonl import dumps

Run = Callable[..., Command]
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def players() -> Iterator[None]:
    """What plays hosts ends with the test."""
    yield
    while Hosts.made:
        Hosts.made.pop().close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The operator's HOME."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def desk(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the operator works: the current directory."""
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("HOME", str(home))
    return tmp_path / "desk"


def write_hosts(path: Path, hosts: tuple[Host, ...], **more: object) -> None:
    """A hosts file of these; `more`: words of every host."""
    tables = []
    for host in hosts:
        said = {"name": host.name, "address": host.address} | more
        tables.append(
            "[[host]]\n" + "".join(f"{key} = {dumps(value)}\n" for key, value in said.items())
        )
    path.write_text("\n".join(tables))


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that the launcher would have sent: none is."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(
        os, "kill", lambda pid, number: sent.append((pid, number)) if number else None
    )
    monkeypatch.setattr(os, "killpg", lambda group, number: sent.append((-group, number)))
    monkeypatch.setattr(
        signal, "pidfd_send_signal", lambda fd, number, *_: sent.append((fd, number))
    )
    return sent


@pytest.fixture
def rankboard(
    desk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signals: list[tuple[int, int]],
) -> Iterator[Run]:
    """Runs `rankboard` with some words in this process, in the operator's folder, over these
    players. It sends no signal, and none comes: no process watches for a second one."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    monkeypatch.setattr(os, "nice", lambda step: 0)
    monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: 0)

    def run(*words: str, over: Hosts | None = None) -> Command:
        hosts = over or Hosts()
        monkeypatch.setattr("remote.transport.ssh.transport.SshTransport", lambda *_: hosts)
        monkeypatch.setattr(sys, "argv", ["rankboard", *words])
        code, began = 0, time.monotonic()
        with measured() as growth:
            try:
                tui.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
        return Command(code, *capsys.readouterr(), growth.bytes, time.monotonic() - began)

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """The keys of the servers of this test run."""
    return Keys(tmp_path_factory.mktemp("hostile") / "home")
