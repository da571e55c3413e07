"""Joins stdin and stdout to a port of a lab's host: the `proxy_command` in a lab's hosts file.

Run as a program, `relay.py FOLDER ADDRESS PORT`. It connects from the hub of the lab's network, as
an operator's machine at the same switch would, so that a cable that is cut is cut for the operator
too. It ends with the lab. Standard library only: it is run by its path, without the package.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import socket
import sys
import threading
import time
from contextlib import suppress

BLOCK = 65536
LOCK = "lock"
STATE = "state.json"
"""Files of a lab's folder: the lock that its daemon holds, and the state of the lab."""
CLOSING = 5.0
"""Seconds that the far end has to end after the near end has."""


def main(folder: str, address: str, port: str) -> None:
    """Join them until either side or the lab ends."""
    try:
        lab_descriptor = _enter(folder)
        peer = socket.create_connection((address, int(port)))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        sys.exit(f"{address}:{port} in the lab: {error.strerror}")
    end_reader, end_writer = os.pipe()

    def send_input() -> None:
        _pour(0, peer.fileno())
        with suppress(OSError):
            peer.shutdown(socket.SHUT_WR)
        # A far end that has stopped reading would keep this process for ever.
        time.sleep(CLOSING)
        os.write(end_writer, b"x")

    def bring_output() -> None:
        _pour(peer.fileno(), 1)
        os.write(end_writer, b"x")

    for copy_loop in (send_input, bring_output):
        threading.Thread(target=copy_loop, daemon=True).start()
    select.select([lab_descriptor, end_reader], [], [])
    # The copying threads may hang in a read, and would hold up an ordinary exit.
    os._exit(0)


def held(folder: str) -> bool:
    """Whether a daemon holds the lab of this folder."""
    try:
        lock_file = os.open(os.path.join(folder, LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock_file)
    return False


def _enter(folder: str) -> int:
    """Enter the hub. Returns a descriptor that becomes readable when the lab ends."""
    try:
        with open(os.path.join(folder, STATE)) as state_file:
            fcntl.flock(state_file, fcntl.LOCK_SH)
            lab_space = json.load(state_file)["lab"]["space"]
        lab_descriptor = os.pidfd_open(lab_space["pid"])
    except (OSError, ValueError):
        lab_descriptor = -1
    # In this order: while the lock is held, the number stands for the lab's process.
    if lab_descriptor < 0 or not held(folder):
        lab_name = os.path.basename(folder)
        sys.exit(
            "this lab is not up: start it with rankboard lab "
            f"up{'' if lab_name == 'lab' else f' --name {lab_name}'}"
        )
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace_kind in ("user", "net") if lab_space["user"] else ("net",):
        descriptor = os.open(f"/proc/{lab_space['pid']}/ns/{namespace_kind}", os.O_RDONLY)
        if libc.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        os.close(descriptor)
    return lab_descriptor


def _pour(source: int, target: int) -> None:
    """Copy until either side ends."""
    with suppress(OSError):
        while data := os.read(source, BLOCK):
            while data:
                data = data[os.write(target, data) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
