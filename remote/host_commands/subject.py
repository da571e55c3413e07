"""One host under examination: its connection, what it was asked, and what it has answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from remote.cluster.hosts import Host
from remote.events import Reaching, Said
from remote.host_commands.reading import AnswerTooLong, Objects
from remote.limits import Limits
from remote.transport import Channel, Errand, Transport, Unreachable
from remote.transport.failure import Cause, Failure
from remote.transport.talk import last_line
from training.wire.commands import Command, Connect, Reserve, encode
from training.wire.enums import Reach
from training.wire.events import Connected, Hello, Reserved
from training.wire.line_cutter import LineTooLong

NEVER = float("inf")


@dataclass(frozen=True)
class Opened:
    """The host is reached."""

    channel: Channel


@dataclass(frozen=True)
class Answered:
    """Objects of its answer."""

    objects: list[dict[str, Any]]


News = Opened | Answered | Reaching | Said | Failure
"""What the thread of a host reports. After a `Failure` nothing more comes."""
Put = Callable[["Subject", News], object]


@dataclass(eq=False)
class Subject:
    """One host. `due` is when its next answer is overdue; `failure` is why it takes part no
    longer."""

    index: int
    host: Host
    channel: Channel | None = None
    hello: Hello | None = None
    offset: float = 0.0
    reserve: Reserve | None = None
    reserved: Reserved | None = None
    connect: Connect | None = None
    connected: list[Connected] = field(default_factory=list)
    due: float = NEVER
    failure: Failure | None = None
    _listener: threading.Thread | None = None

    # What it has answered

    @property
    def has_facts(self) -> bool:
        """Whether it has given its facts."""
        return self.hello is not None

    @property
    def has_reserved(self) -> bool:
        """Whether it has answered about its port, if it was asked."""
        return self.reserve is None or self.reserved is not None

    @property
    def has_connected(self) -> bool:
        """Whether it has tried all connections that it was asked for."""
        return len(self.connected) == len(self.connect.targets if self.connect else ())

    def is_asked_for(self, answer: Reserved | Connected) -> bool:
        """Whether this answers what it was asked and has not answered yet."""
        if isinstance(answer, Reserved):
            return self.reserve is not None and answer.address == self.reserve.address
        where = answer.address, answer.port
        tried = {(other.address, other.port) for other in self.connected}
        return self.connect is not None and where in self.connect.targets and where not in tried

    # What it is asked

    def ask(self, command: Command) -> None:
        """Send a command that it has to answer."""
        self.expect()
        self._send(command)

    def expect(self) -> None:
        """An answer is due within the host's timeout, and the time that its connections have."""
        dialling = self.connect.seconds if self.connect else 0.0
        self.due = time.monotonic() + self.host.timeout + dialling

    def _send(self, command: Command) -> None:
        """Write in a thread of its own: a host that does not read holds up nobody."""
        if self.channel:
            args = (self.channel, command)
            threading.Thread(target=_write, args=args, name="asking", daemon=True).start()

    # Its connection

    def reach(self, transport: Transport, errand: Errand, limits: Limits, put: Put) -> None:
        """Connect, and report all that comes, in a thread of its own."""
        args = (transport, errand, limits, put)
        name = f"checking {self.index}"
        self._listener = threading.Thread(target=self._listen, args=args, name=name, daemon=True)
        self._listener.start()

    def _listen(self, transport: Transport, errand: Errand, limits: Limits, put: Put) -> None:
        try:
            channel = transport.open(self.host, errand, _Progress(self, put))
        except Unreachable as error:
            put(self, error.failure)
        except Exception as error:  # noqa: BLE001 - our own mistake: without this the host is waited for forever
            put(self, Failure(Cause.OTHER, f"rankboard itself failed: {error!r}"))
        else:
            put(self, Opened(channel))
            put(self, Failure(Cause.BROKEN, self._read(channel, limits, put)))

    def _read(self, channel: Channel, limits: Limits, put: Put) -> str:
        """Report the answers up to the end of the connection; why it has ended."""
        objects = Objects(limits)
        try:
            while block := channel.read():
                put(self, Answered(objects.take(block)))
        except (AnswerTooLong, LineTooLong) as error:
            channel.close()
            return str(error)
        return last_line(channel.close()) or "the connection broke"

    def end(self, command: Command) -> None:
        """Send the last command. The host then ends the connection."""
        self._send(command)

    def wait(self, until: float) -> None:
        """Wait for the end of the connection, up to this monotonic time, then close it."""
        if not (self.channel and self._listener):  # not reached yet: not waited for
            return
        self._listener.join(max(0.0, until - time.monotonic()))
        if self._listener.is_alive():  # the host hangs, and so may the close
            threading.Thread(target=self.channel.close, name="closing", daemon=True).start()


def _write(channel: Channel, command: Command) -> None:
    with suppress(OSError):  # the reader of this connection says why
        channel.write(encode(command))


class _Progress:
    """Reports how far a transport is."""

    def __init__(self, subject: Subject, put: Put) -> None:
        self._subject = subject
        self._put = put

    def phase(self, name: Reach) -> None:
        self._put(self._subject, Reaching(self._subject.index, name))

    def said(self, text: str) -> None:
        self._put(self._subject, Said(self._subject.index, text))
