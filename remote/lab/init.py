"""The first process of a lab's PID namespace: as long as it lives the lab lives, and it lives as
long as its stdin is open.

Run as a program. The arguments are lines for the lab's own /etc/hosts, then the hosts' names. It
gives each host a network namespace and a name of its own, held by one process per host, then prints
READY. When it ends, the kernel kills everything else in the lab.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import tempfile

READY = "ready"
_NEWUTS = 0x04000000
_NEWNET = 0x40000000
_BIND = 4096
_NAME = 15
_HOSTS = "/etc/hosts"
_libc = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> None:
    """Make the hosts, and stay until stdin ends."""
    # Orphans of the whole lab become children of this process, and nobody waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _libc.prctl(_NAME, b"rankboard-lab")
    known_names, *hosts = words
    _know(known_names)
    for name in hosts:
        _hold(name)
    os.write(1, f"{READY}\n".encode())
    while os.read(0, 4096):
        continue


def _know(known_names: str) -> None:
    """Let the lab's processes find the hosts by name, and names by address, as else each look-up is
    a warning of torch's."""
    if not os.path.exists(_HOSTS):
        return
    with open(_HOSTS, errors="replace") as file:
        text = file.read().rstrip("\n") + "\n" + known_names
    descriptor, path = tempfile.mkstemp(prefix="rankboard-hosts-")
    try:
        os.write(descriptor, text.encode(errors="replace"))
        os.fchmod(descriptor, 0o644)
        _libc.mount(
            path.encode(), _HOSTS.encode(), None, _BIND, None
        )  # where it is refused the lab works all the same
    finally:
        os.close(descriptor)
        os.unlink(path)


def _hold(name: str) -> None:
    """Start the process that holds a new host's namespaces, and wait until it has them."""
    ready, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        if _libc.unshare(_NEWUTS | _NEWNET):
            os.write(2, f"no namespace for {name}: {os.strerror(ctypes.get_errno())}\n".encode())
            os._exit(1)
        socket.sethostname(name)
        os.write(say, b"x")
        for descriptor in (0, 1, 2, ready, say):
            os.close(descriptor)
        while True:
            signal.pause()
    os.close(say)
    if not os.read(ready, 1):
        sys.exit(1)
    os.close(ready)


if __name__ == "__main__":
    main(sys.argv[1:])
