"""Open sockets to a host, directly or through a proxy command."""

from __future__ import annotations

import getpass
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from remote.cluster.hosts import Host
from remote.transport.failure import Deadline, FailureCause, ReachError

ResultT = TypeVar("ResultT")
Address = tuple[socket.AddressFamily, tuple[object, ...]]


class Proxy:
    """A proxy command. Its stdin and stdout are the connection to the host.

    Both are one socket, so paramiko notices when the command ends. (`paramiko.ProxyCommand` spins
    then.)
    """

    def __init__(self, host: Host) -> None:
        user_name = host.user or getpass.getuser()
        command = host.proxy_command
        token_values = {"%h": host.address, "%p": str(host.port), "%r": user_name, "%%": "%"}
        for token, token_value in token_values.items():
            command = command.replace(token, token_value)
        self.socket, command_socket = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with command_socket:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=command_socket.fileno(),
                stdout=command_socket.fileno(),
                stderr=self._errors,
                # Ctrl+C at the terminal must not end the connection before the run is stopped
                # over it.
                start_new_session=True,
            )

    def last_error(self) -> str:
        """Return the last line of its stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]

    def close(self) -> None:
        """End the command."""
        self.socket.close()
        self._errors.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _QuickSocket(socket.socket):
    """A socket that acknowledges at once. sshd holds back small messages until its last one is
    acknowledged, which may otherwise take 40 ms."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if data and sys.platform == "linux":
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data


def connect_tcp(host: Host, deadline: Deadline) -> socket.socket:
    """Connect to the first of the host's addresses that answers. Each address gets a share of the
    time that is left. Raises: ReachError, TimeoutError."""
    host_address = f"{host.address}:{host.port}"
    errors: list[OSError] = []
    addresses = _resolve(host, deadline)
    for tried_count, (family, address) in enumerate(addresses):
        sock = _QuickSocket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left() / (len(addresses) - tried_count))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            errors.append(error)
    deadline.left()
    if any(isinstance(error, ConnectionRefusedError) for error in errors):
        failure_text = f"{host_address} refused the connection"
        advice = f"start sshd there, or set its address and port in {host.hosts_file}"
        raise ReachError(FailureCause.REFUSED, failure_text, advice)
    failure_text = f"cannot connect to {host_address}: {errors[-1].strerror}"
    raise ReachError(
        FailureCause.REFUSED, failure_text, f"set its address and port in {host.hosts_file}"
    )


def _resolve(host: Host, deadline: Deadline) -> list[Address]:
    """Return the host's addresses. Raises: ReachError, TimeoutError."""
    with suppress(OSError, UnicodeError):
        return _addresses(host, socket.AI_NUMERICHOST)
    try:
        return call_in_time(lambda: _addresses(host), deadline)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:
        error_text = getattr(error, "strerror", None) or error
        failure_text = f"the name {host.address!r} does not resolve ({error_text})"
        advice = f"set its address in {host.hosts_file} to one that does"
        raise ReachError(FailureCause.ADDRESS, failure_text, advice) from None


def _addresses(host: Host, flags: int = 0) -> list[Address]:
    answers = socket.getaddrinfo(host.address, host.port, type=socket.SOCK_STREAM, flags=flags)
    return [(answer[0], answer[4]) for answer in answers]


def call_in_time(function: Callable[[], ResultT], deadline: Deadline) -> ResultT:
    """Call a function that has no timeout of its own, in a thread that may be left behind. Raises:
    TimeoutError, and what the function raises."""
    answer: Future[ResultT] = Future()

    def call_function() -> None:
        try:
            answer.set_result(function())
        except Exception as error:  # noqa: BLE001 - it is raised below
            answer.set_exception(error)

    threading.Thread(target=call_function, name="question", daemon=True).start()
    return answer.result(deadline.left())
