"""The follower: streams the journal to its stdout, and passes command lines from its stdin to the
agent.

It does not parse records. It may be killed at any time; another follower then continues from any
record.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time

from training.agent import MARKER
from training.agent.guard import guard
from training.agent.journal import JournalReader, list_segments, write_last, write_reserve
from training.agent.layout import LOCK, SOCKET
from training.agent.options import AgentOptions
from training.agent.ranks.launch import Preload
from training.agent.times import AgentTimes
from training.file_locks import try_lock
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded
from training.writing import write_all

_MOMENT = 0.01
"""Seconds between two tries to take the lock, or to reach an agent that is starting."""


def follow(agent_socket: socket.socket | None, options: AgentOptions, times: AgentTimes) -> int:
    """Follow the agent whose run's folder is the working directory. `agent` is the connection to
    it, see `reach_agent`. Returns the exit status, see `main`.

    Raises: OSError, if the folder cannot be written.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles Ctrl-C
    # A thread: commands have to pass while stdout is full, and the journal while stdin is quiet.
    threading.Thread(target=_pass_commands, args=(agent_socket, times.input), daemon=True).start()
    # A follower that is killed loses nothing: the next one reads on where its launcher stopped.
    reader = JournalReader(".", options.host, options.after)
    try:
        write_all(sys.stdout.fileno(), MARKER)
        _copy_new_records(reader)
        while agent_socket and _wait_for_more(agent_socket):
            _copy_new_records(reader)
        # The connection broke, but only the lock says that the guard has done its last work.
        lock_descriptor = _take_lock()
        while not lock_descriptor:
            time.sleep(_MOMENT)
            lock_descriptor = _take_lock()
        write_last(".", options.host, AgentEnded(EndReason.ABANDONED))
        os.close(lock_descriptor)
        _copy_new_records(reader)
    except BrokenPipeError:
        return 1
    return 0


def reach_agent(options: AgentOptions, times: AgentTimes, preload: Preload) -> socket.socket | None:
    """Return a connection to the agent, or None if it has ended. Start the agent if there never was
    one.

    Raises: OSError, if the folder cannot be written.
    """
    deadline = time.monotonic() + times.last
    while time.monotonic() < deadline:
        agent_socket = _connect_to_agent()
        if agent_socket:
            return agent_socket
        lock_descriptor = _take_lock()
        if lock_descriptor:
            if list_segments("."):
                os.close(lock_descriptor)
                return None
            if options.after or not options.found:
                raise FileNotFoundError(None, "the journal of the run is gone from this host")
            _start_agent(options, lock_descriptor, times, preload)
        else:
            # Another follower starts the agent just now: it has the lock, its socket is not there
            # yet.
            time.sleep(_MOMENT)
    raise TimeoutError(None, "its agent does not answer")


def _connect_to_agent() -> socket.socket | None:
    agent_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        agent_socket.connect(SOCKET)
    except OSError:  # there is no agent
        agent_socket.close()
        return None
    return agent_socket


def _take_lock() -> int:
    """Return a descriptor that holds the lock, or 0 while the guard is alive."""
    lock_descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(lock_descriptor):
        os.close(lock_descriptor)
        return 0
    return lock_descriptor


def _start_agent(
    options: AgentOptions, lock_descriptor: int, times: AgentTimes, preload: Preload
) -> None:
    """Start guard and agent. The socket listens before they run, so nobody has to wait for them."""
    write_reserve(".")
    # An agent that was killed leaves its socket, and `bind` refuses a path that exists.
    if os.path.exists(SOCKET):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(SOCKET)  # a relative path: that of a socket may have 107 bytes
    listener.listen(16)
    if os.fork() == 0:
        guard(options, listener, lock_descriptor, times, preload)
    listener.close()
    os.close(lock_descriptor)


def _pass_commands(agent_socket: socket.socket | None, patience: float) -> None:
    """Copy stdin to the agent. Exit at its end, or if no input comes for `patience` seconds."""
    while select.select([0], [], [], patience)[0]:
        input_block = os.read(0, 1 << 16)
        if not input_block:
            os._exit(0)
        try:
            if agent_socket:
                agent_socket.sendall(input_block)
        except ConnectionError:  # the agent has ended; the rest of the journal is still sent
            agent_socket = None
    os.write(2, f"no input for {patience:g} s\n".encode())
    os._exit(1)


def _wait_for_more(agent_socket: socket.socket) -> bool:
    """Wait until the agent has written records. Return False if it has ended."""
    try:
        return bool(agent_socket.recv(1 << 16))
    except ConnectionError:
        return False


def _copy_new_records(reader: JournalReader) -> None:
    """Write what is new in the journal to stdout."""
    for block in reader.blocks():
        write_all(sys.stdout.fileno(), block)
