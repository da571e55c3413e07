"""The channel to the program on a host: the stdin and stdout of one command over SSH."""

from __future__ import annotations

import threading
from contextlib import suppress

import paramiko
from paramiko.ssh_exception import SSHException

from remote.transport.failure import Deadline
from remote.transport.ssh.connect import SshConnection

BLOCK = 65536
TAIL = 4096
"""Bytes of stderr that are kept for an explanation."""
CLOSING = 1.0
"""Seconds that a follower has to end by itself once its stdin is closed."""
STATUS = 2.0
"""Seconds to wait for the exit status of a command that has ended its output."""


def execute(connection: SshConnection, command: str, deadline: Deadline) -> SshChannel:
    """Have the login shell of the host run a command. Raises: SSHException, EOFError, OSError."""
    transport = connection.transport
    channel = transport.open_session(timeout=deadline.left())
    # paramiko waits for the answer without a timeout
    timeout_timer = threading.Timer(deadline.left(), transport.close)
    timeout_timer.daemon = True
    timeout_timer.start()
    try:
        channel.exec_command(command)
    finally:
        timeout_timer.cancel()
    return SshChannel(connection, channel)


class SshChannel:
    """The channel to one program. `read` belongs to one thread; any thread may write and close."""

    def __init__(self, connection: SshConnection, channel: paramiko.Channel) -> None:
        self._connection = connection  # paramiko ends a connection that nobody refers to
        self._channel = channel
        self._rest = b""
        self._tail = b""
        # A full window of either stream would stop both, so stderr is drained from the start.
        self._listener = threading.Thread(target=self._drain, name="stderr", daemon=True)
        self._listener.start()
        self._closing = threading.Lock()
        self._is_closed = False
        self._why = ""

    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes before the deadline. Raises: TimeoutError."""
        self._channel.settimeout(deadline.left())
        return self._channel.recv(BLOCK)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send much. The deadline starts again with each part. Raises: TimeoutError, OSError."""
        for part_start in range(0, len(data), BLOCK):
            self._channel.settimeout(deadline.left())
            self._channel.sendall(data[part_start : part_start + BLOCK])
            deadline.restart()

    def begin(self, first_bytes: bytes) -> None:
        """Note that the program speaks, with these bytes first. From now on there is no timeout."""
        self._rest = first_bytes
        self._tail = b""  # what a login shell printed before explains no later end
        self._channel.settimeout(None)

    def ended(self) -> tuple[int, str]:
        """Return the exit status (-1: none came) and the end of stderr, once the output has
        ended."""
        # The exit status is a message of its own, which may follow the end of the output.
        self._channel.status_event.wait(STATUS)
        self._listener.join(STATUS)
        return self._channel.exit_status, self._last_words()

    def read(self) -> bytes:
        """Return some bytes, as they come; b"" once the channel has ended or was closed."""
        data = self._rest
        self._rest = b""
        # Reading acknowledges what has come, which raises on a connection that has ended.
        with suppress(OSError, SSHException, EOFError):
            return data or self._channel.recv(BLOCK)
        return b""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises: OSError, if the channel has ended."""
        try:
            while data:
                sent_size = self._channel.send(data)
                if not sent_size:  # `sendall` would try again at once, for ever
                    raise BrokenPipeError("the channel is closed")
                data = data[sent_size:]
        except (SSHException, EOFError) as error:
            raise OSError(f"the connection broke: {error}") from error

    def close(self) -> str:
        """End the channel, from any thread, any number of times. Takes `CLOSING` seconds or little
        more. Return why it had ended before, as far as the far end said."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                break_reason = self._why_broken()
                if not self._channel.exit_status_ready():
                    end_waiter = threading.Thread(target=self._leave, name="leaving", daemon=True)
                    end_waiter.start()
                    end_waiter.join(CLOSING)
                self._connection.close()
                self._listener.join(CLOSING)
                self._why = self._last_words() or break_reason
        return self._why

    def _drain(self) -> None:
        with suppress(OSError):
            while data := self._read_error():
                self._tail = (self._tail + data)[-TAIL:]

    def _read_error(self) -> bytes:
        while True:
            with suppress(TimeoutError):  # paramiko has one timeout for both streams
                return self._channel.recv_stderr(BLOCK)

    def _last_words(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def _why_broken(self) -> str:
        """Say what ended the connection, unless this side closed it."""
        transport = self._connection.transport
        if transport.is_active():
            return ""
        reason = str(transport.get_exception() or "") or "the far end hung up"
        return f"the connection broke: {reason}"

    def _leave(self) -> None:
        """Let the program end by itself first, so that what was written arrives."""
        with suppress(OSError, SSHException, EOFError):
            self._channel.shutdown_write()
            self._channel.status_event.wait(CLOSING)
