"""Reaches a host's agent over SSH: one connection, one channel and one command per host. Never asks
for a terminal there."""

from __future__ import annotations

import itertools
import logging
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import paramiko
from paramiko.ssh_exception import SSHException

from remote.cluster.hosts import SSH_CONFIG, Host
from remote.cluster.ssh_config import SshConfig
from remote.transport import Program, Progress, Unreachable
from remote.transport.archive import PACKAGE, Archive, archive
from remote.transport.bootstrap.command import bootstrap
from remote.transport.failure import Cause, Failure
from remote.transport.host_keys import ShownKey
from remote.transport.problem import Deadline, Dropped, Problem
from remote.transport.ssh.connect import Connection, Way
from remote.transport.ssh.keys import Keys
from remote.transport.ssh.trust import Shown, Unverified
from remote.transport.talk import (
    Changed,
    Failed,
    Needed,
    Noise,
    Placed,
    Ready,
    Talk,
    is_echo,
    last_line,
    quoted,
)
from training.wire.enums import Reach

Reached = TypeVar("Reached")
BLOCK = 65536
TAIL = 4096
"""Bytes of stderr that are kept for an explanation."""
CLOSING = 1.0
"""Seconds that a follower has to end by itself once its stdin is closed."""
STATUS = 2.0
"""Seconds to wait for the exit status of a command that has ended its output."""

# paramiko's threads log what they also raise; without a handler Python prints that, tracebacks and
# all
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class SshTransport:
    """Reaches agents over SSH."""

    def __init__(self, package: Path = PACKAGE, ssh_config: Path = SSH_CONFIG) -> None:
        """`package`: the folder of the package `training` that the hosts get. `ssh_config`: says
        how to reach jump hosts."""
        self._package = package
        self._ssh_config = ssh_config
        self._keys = Keys()

    def open(self, host: Host, program: Program, progress: Progress) -> SshLine:
        """Log in, put the code there if need be, and return the line once the agent's marker has
        come. Raises: Unreachable."""
        progress.phase(Reach.CONNECTING)
        deadline = Deadline(host.timeout)
        connection = None
        try:
            connection = self._connect(host, Way(self._keys, progress.said, deadline, host.name))
            return _start(connection, host, program, archive(self._package), deadline, progress)
        except (Problem, SSHException, EOFError, OSError) as error:
            if connection:
                connection.close()
            raise Unreachable(host.name, _explain(error, deadline)) from error

    def meet(self, host: Host) -> Shown:
        """The key that a host shows; or, where we cannot get there without it, that of the first of
        its jump hosts whose key is not accepted. Raises: Unreachable."""
        deadline = Deadline(host.timeout)
        way = Way(self._keys, lambda _: None, deadline, host.name)
        try:
            return Shown(host, _patiently(deadline, lambda: way.meet(host, self._hops(host))))
        except Unverified as problem:
            return problem.shown
        except (Problem, SSHException, EOFError, OSError) as error:
            raise Unreachable(host.name, _explain(error, deadline)) from error

    def accept(self, shown: ShownKey) -> Path:
        """Record a key that a person has accepted; the file that has it now. Raises:
        NotRecorded."""
        assert isinstance(shown, Shown)
        return shown.record(self._ssh_config)

    def _connect(self, host: Host, way: Way) -> Connection:
        hops = self._hops(host)
        return _patiently(way.deadline, lambda: way.connect(host, hops))

    def _hops(self, host: Host) -> tuple[Host, ...]:
        """The jump hosts, as hosts; ssh's configuration says what `jump` leaves out."""
        if not host.jump:
            return ()
        config = SshConfig.read(self._ssh_config)
        return tuple(_hop(text, host, config) for text in host.jump.split(","))


def _patiently(deadline: Deadline, attempt: Callable[[], Reached]) -> Reached:
    """What the attempt gives; where the far end hangs up before the login, again after a while
    (each host another one)."""
    dropped, then = None, ""
    for number in itertools.count(1):
        try:
            return attempt()
        except TimeoutError:
            if dropped and deadline.doing == then:
                what = f"{dropped.failure.what}; then no answer came"
                raise Problem(Cause.DROPPED, what, dropped.failure.advice) from None
            raise
        except Dropped as error:
            dropped, then = error, deadline.doing
            pause = random.uniform(0.1, 0.3) * min(number, 5)
            if time.monotonic() + pause >= deadline.end:
                raise
            time.sleep(pause)
    raise AssertionError("unreachable")


def _hop(text: str, host: Host, config: SshConfig) -> Host:
    found = re.fullmatch(r"(?:([^@]+)@)?(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?", text)
    if not found:
        what = f"jump = {text!r} is wrong: write [user@]host[:port] in hosts.toml"
        raise Problem(Cause.SETTINGS, what)
    user, bracketed, plain, port = found.groups()
    said = {key for key, value in (("user", user), ("port", port)) if value} | {"jump"}
    hop = Host(
        text,
        bracketed or plain,
        user=user or "",
        port=int(port or 22),
        identity_file=host.identity_file,
    )
    return config.fill(hop, said)


def _start(
    connection: Connection,
    host: Host,
    program: Program,
    code: Archive,
    deadline: Deadline,
    progress: Progress,
) -> SshLine:
    """Run the one command, and talk until the agent speaks."""
    deadline.doing = "starting its agent"
    progress.phase(Reach.STARTING)
    command = bootstrap(host.python or "python3", host.workdir, code, program.argv())
    channel = _run(connection, command, deadline)
    line = SshLine(connection, channel)
    needed, placed, noise, talk = False, False, "", Talk()
    while data := line.receive(deadline):
        for step in talk.feed(data):
            match step:
                case Noise(text):
                    noise = text
                    progress.said(text)
                case Needed():
                    needed = True
                    progress.phase(Reach.DEPLOYING)
                    _upload(channel, code, deadline)
                case Placed():
                    placed, deadline.doing = True, "starting its agent"
                    if needed:
                        progress.phase(Reach.STARTING)
                case Changed(folder):
                    progress.said(
                        f"the code in {folder} was not as it had been sent: it has been sent again"
                    )
                case Failed(failure):
                    raise Problem(failure.cause, failure.what, failure.advice)
                case Ready(rest):
                    line.begin(rest)
                    return line
    raise _ended(host.python, line, placed, noise, talk.echoed)


def _run(connection: Connection, command: str, deadline: Deadline) -> paramiko.Channel:
    """A channel on which the host's login shell runs the command."""
    assert connection.transport is not None
    channel = connection.transport.open_session(timeout=deadline.left())
    stopper = threading.Timer(
        deadline.left(), connection.transport.close
    )  # the answer is awaited without a timeout
    stopper.daemon = True
    stopper.start()
    try:
        channel.exec_command(command)
    finally:
        stopper.cancel()
    return channel


def _upload(channel: paramiko.Channel, code: Archive, deadline: Deadline) -> None:
    """Send the archive. As long as it moves, the host has time."""
    deadline.doing = "sending the code"
    for start in range(0, len(code.data), BLOCK):
        channel.settimeout(deadline.left())
        channel.sendall(code.data[start : start + BLOCK])
        deadline.restart()


def _ended(python: str, line: SshLine, placed: bool, noise: str, echoed: bool) -> Problem:
    """Why a command ended before its agent spoke. `echoed`: the host has printed the program that
    it was to run."""
    status, said = line.ended()
    last = quoted(last_line(said))
    if placed:
        why = last or "it gave no reason"
        return Problem(Cause.AGENT, f"its agent ended at its start (exit status {status}): {why}")
    advice = 'set python = "/path/to/python3" for it in hosts.toml'
    if echoed or is_echo(said) or _speaks(python, said):
        what = f"{python} is no working Python 3 (exit status {status}): {last or noise}"
        return Problem(Cause.PYTHON, what, advice)
    if status in (126, 127) or re.search(
        r"not found|unknown command|no such file", said, re.IGNORECASE
    ):
        return Problem(Cause.PYTHON, f"no {python} there ({last})", advice)
    reason = last or noise or "it gave no reason"
    what = f"its login shell, or {python} there, ended (exit status {status}) before anything was"
    return Problem(Cause.SHELL, f"{what} started: {reason}")


def _speaks(python: str, said: str) -> bool:
    """Whether a line is this program's own, as programs begin what they print on stderr with their
    name."""
    names = "|".join(map(re.escape, {python, python.rpartition("/")[2]}))
    return bool(
        re.search(
            rf"^(?:{names}): (?!.*(?:not found|no such file))", said, re.IGNORECASE | re.MULTILINE
        )
    )


def _explain(error: Exception, deadline: Deadline) -> Failure:
    if isinstance(error, Problem):
        return error.failure
    if deadline.over or isinstance(error, TimeoutError):
        what = f"no answer within {deadline.seconds:g} s while {deadline.doing}"
        advice = "is it up? If it is only slow, raise timeout in hosts.toml"
        return Failure(Cause.TIMEOUT, what, advice)
    what = f"the connection broke while {deadline.doing}: {str(error) or 'end of file'}"
    return Failure(Cause.BROKEN, what)


class SshLine:
    """The channel to one follower. `read` belongs to one thread; `write` and `close` may come from
    any."""

    def __init__(self, connection: Connection, channel: paramiko.Channel) -> None:
        self._connection = connection  # to be kept: paramiko ends what nobody refers to
        self._channel = channel
        self._rest = self._tail = b""
        # a full window of either stream would stop both, so this one is drained from the start
        self._listener = threading.Thread(target=self._hear, name="stderr", daemon=True)
        self._listener.start()
        self._closing = threading.Lock()
        self._closed = False
        self._why = ""

    def _hear(self) -> None:
        with suppress(OSError):
            while data := self._heard():
                self._tail = (self._tail + data)[-TAIL:]

    def _heard(self) -> bytes:
        while True:
            with suppress(TimeoutError):  # paramiko has one timeout for both streams
                return self._channel.recv_stderr(BLOCK)

    def receive(self, deadline: Deadline) -> bytes:
        """The next bytes before the deadline. Raises: TimeoutError."""
        self._channel.settimeout(deadline.left())
        return self._channel.recv(BLOCK)

    def begin(self, rest: bytes) -> None:
        """The journal has begun, with these bytes; from now on the line has no timeout."""
        self._rest, self._tail = (
            rest,
            b"",
        )  # what a login shell has said before explains no later end
        self._channel.settimeout(None)

    def ended(self) -> tuple[int, str]:
        """The exit status (-1: none came) and the last of stderr, once the output has ended."""
        self._channel.status_event.wait(STATUS)
        self._listener.join(STATUS)
        return self._channel.exit_status, self._said()

    def _said(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def read(self) -> bytes:
        """Some bytes of the journal; b"" once the line has ended or was closed."""
        data, self._rest = self._rest, b""
        with suppress(
            OSError, SSHException, EOFError
        ):  # as it acknowledges what has come, on a connection that has ended
            return data or self._channel.recv(BLOCK)
        return b""

    def write(self, data: bytes) -> None:
        """Send command lines. Raises: OSError, where the line has ended."""
        try:
            while data:
                if not (
                    sent := self._channel.send(data)
                ):  # which `sendall` takes for a reason to try again at once
                    raise BrokenPipeError("the line is closed")
                data = data[sent:]
        except (SSHException, EOFError) as error:
            raise OSError(f"the connection broke: {error}") from error

    def close(self) -> str:
        """End the line: within `CLOSING` seconds or little more, from any thread, any number of
        times."""
        with self._closing:
            if not self._closed:
                self._closed = True
                broke = self._broken()
                if not self._channel.exit_status_ready():
                    polite = threading.Thread(target=self._leave, name="leaving", daemon=True)
                    polite.start()
                    polite.join(CLOSING)
                self._connection.close()
                self._listener.join(CLOSING)
                self._why = self._said() or broke
        return self._why

    def _broken(self) -> str:
        """What ended the connection, if it did not end by our will."""
        transport = self._connection.transport
        if transport is None or transport.is_active():
            return ""
        return (
            f"the connection broke: {str(transport.get_exception() or '') or 'the far end hung up'}"
        )

    def _leave(self) -> None:
        """The follower first ends by itself, so that commands still on their way arrive."""
        with suppress(OSError, SSHException, EOFError):
            self._channel.shutdown_write()
            self._channel.status_event.wait(CLOSING)
