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
from training.wire.events import AgentEnded
from training.writing import write_all

_MOMENT = 0.01


def follow(agent: socket.socket | None, options: AgentOptions, times: AgentTimes) -> int:
    """Follow the agent whose run's folder is the working directory. `agent` is the connection to
    it, see `reach`. Returns the exit status, see `main`.

    Raises: OSError, if the folder cannot be written.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher handles Ctrl-C
    threading.Thread(target=_pass_commands, args=(agent, times.input), daemon=True).start()
    # A follower that is killed loses nothing: the next one reads on where its launcher stopped.
    reader = JournalReader(".", options.host, options.after)
    try:
        write_all(sys.stdout.fileno(), MARKER)
        _copy(reader)
        while agent and _wait_for_more(agent):
            _copy(reader)
        # The connection broke, but only the lock says that the guard has done its last work.
        lock = _take_lock()
        while not lock:
            time.sleep(_MOMENT)
            lock = _take_lock()
        write_last(".", options.host, AgentEnded(EndReason.ABANDONED))
        os.close(lock)
        _copy(reader)
    except BrokenPipeError:
        return 1
    return 0


def reach(options: AgentOptions, times: AgentTimes, preload: Preload) -> socket.socket | None:
    """Return a connection to the agent, or None if it has ended. Start the agent if there never was
    one.

    Raises: OSError, if the folder cannot be written.
    """
    deadline = time.monotonic() + times.last
    while time.monotonic() < deadline:
        agent = _connect()
        if agent:
            return agent
        lock = _take_lock()
        if lock:
            if list_segments("."):
                os.close(lock)
                return None
            if options.after or not options.found:
                raise FileNotFoundError(None, "the journal of the run is gone from this host")
            _start_agent(options, lock, times, preload)
        else:
            time.sleep(_MOMENT)
    raise TimeoutError(None, "its agent does not answer")


def _connect() -> socket.socket | None:
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        agent.connect(SOCKET)
    except OSError:  # there is no agent
        agent.close()
        return None
    return agent


def _take_lock() -> int:
    """Return a descriptor that holds the lock, or 0 while the guard is alive."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not try_lock(lock):
        os.close(lock)
        return 0
    return lock


def _start_agent(options: AgentOptions, lock: int, times: AgentTimes, preload: Preload) -> None:
    """Start guard and agent. The socket listens before they run, so nobody has to wait for them."""
    write_reserve(".")
    if os.path.exists(SOCKET):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(SOCKET)  # a relative path: that of a socket may have 107 bytes
    listener.listen(16)
    if os.fork() == 0:
        guard(options, listener, lock, times, preload)
    listener.close()
    os.close(lock)


def _pass_commands(agent: socket.socket | None, patience: float) -> None:
    """Copy stdin to the agent. Exit at its end, or if no input comes for `patience` seconds."""
    while select.select([0], [], [], patience)[0]:
        block = os.read(0, 1 << 16)
        if not block:
            os._exit(0)
        try:
            if agent:
                agent.sendall(block)
        except ConnectionError:  # the agent has ended; the rest of the journal is still sent
            agent = None
    os.write(2, f"no input for {patience:g} s\n".encode())
    os._exit(1)


def _wait_for_more(agent: socket.socket) -> bool:
    """Wait until the agent has written records. Return False if it has ended."""
    try:
        return bool(agent.recv(1 << 16))
    except ConnectionError:
        return False


def _copy(reader: JournalReader) -> None:
    """Write what is new in the journal to stdout."""
    for block in reader.blocks():
        write_all(sys.stdout.fileno(), block)
