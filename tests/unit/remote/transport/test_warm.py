"""The channel to the follower of one run, over the connection to a fork server."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from remote.transport import Channel
from remote.transport.warm import RunChannel
from training.agent import IDLE


class Server:
    """A connection that delivers these blocks, and then nothing more."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self.blocks, self.written, self.closed = list(blocks), b"", False

    def read(self) -> bytes:
        return self.blocks.pop(0) if self.blocks else b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> str:
        self.closed = True
        return "its last words"


def channel(*blocks: bytes, rest: bytes = b"") -> tuple[RunChannel, Server, list[object]]:
    """The channel, its server, and what is given back."""
    server, given = Server(blocks), list[object]()

    def give_back(one: Channel | None) -> bool:
        given.append(one)
        return one is not None

    return RunChannel(server, rest, give_back), server, given


def read(channel: RunChannel) -> list[bytes]:
    return list(iter(channel.read, b""))


@pytest.mark.parametrize("blocks", [(b"a\n", b"b\n" + IDLE), (b"a\n", b"b\n", IDLE)])
def test_a_server_that_is_idle_is_given_back(blocks: tuple[bytes, ...]) -> None:
    run, server, given = channel(*blocks, rest=b"first\n")
    run.write(b"lease\n")
    assert read(run) == [b"first\n", b"a\n", b"b\n"]
    assert (run.close(), run.close()) == ("", "")
    assert given == [server]
    assert (server.written, server.closed) == (b"lease\n", False)


def test_nothing_is_read_or_written_after_the_run() -> None:
    run, server, _ = channel(b"a\n" + IDLE)
    assert read(run) == [b"a\n"]
    server.blocks.append(b"of the next run\n")
    assert run.read() == b""
    with pytest.raises(OSError, match="closed"):
        run.write(b"x")
    assert server.written == b""


@pytest.mark.parametrize("blocks", [(b"a\n",), (b"a\n" + IDLE + b"more",)])
def test_a_server_that_ended_or_says_more_is_not_given_back(blocks: tuple[bytes, ...]) -> None:
    run, server, given = channel(*blocks)
    assert read(run) == [b"a\n"]
    assert run.close() == "its last words"
    assert (given, server.closed) == ([None], True)


def test_a_run_that_does_not_end_takes_its_server_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.transport.warm.ENDING", 0.0)
    run, server, given = channel(b"a\n")
    assert run.close() == "its last words"
    assert (given, server.closed) == ([None], True)
    assert run.read() == b""
