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


def main(arguments: list[str]) -> None:
    """Make the hosts, and stay until stdin ends."""
    # Orphans of the whole lab become children of this process, and nobody waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _libc.prctl(_NAME, b"rankboard-lab")
    known_names, *host_names = arguments
    _know(known_names)
    for host_name in host_names:
        _hold(host_name)
    os.write(1, f"{READY}\n".encode())
    # The other end belongs to the process that holds the lab, and closes however that ends.
    while os.read(0, 4096):
        continue


def _know(known_names: str) -> None:
    """Let the lab's processes find the hosts by name, and names by address, as else each look-up is
    a warning of torch's."""
    if not os.path.exists(_HOSTS):
        return
    with open(_HOSTS, errors="replace") as system_hosts:
        hosts_text = system_hosts.read().rstrip("\n") + "\n" + known_names
    copy_descriptor, hosts_copy = tempfile.mkstemp(prefix="rankboard-hosts-")
    try:
        # A bind mount: the machine's own file stays as it is for everybody outside.
        os.write(copy_descriptor, hosts_text.encode(errors="replace"))
        os.fchmod(copy_descriptor, 0o644)
        _libc.mount(
            hosts_copy.encode(), _HOSTS.encode(), None, _BIND, None
        )  # where it is refused the lab works all the same
    finally:
        os.close(copy_descriptor)
        os.unlink(hosts_copy)


def _hold(host_name: str) -> None:
    """Start the process that holds a new host's namespaces, and wait until it has them."""
    ready_end, holder_end = os.pipe()
    holder_pid = os.fork()
    if holder_pid == 0:
        if _libc.unshare(_NEWUTS | _NEWNET):
            os.write(
                2, f"no namespace for {host_name}: {os.strerror(ctypes.get_errno())}\n".encode()
            )
            os._exit(1)
        socket.sethostname(host_name)
        os.write(holder_end, b"x")
        # Who waits for the end of the lab's output must not wait for this process.
        for descriptor in (0, 1, 2, ready_end, holder_end):
            os.close(descriptor)
        while True:
            signal.pause()
    os.close(holder_end)
    if not os.read(ready_end, 1):
        sys.exit(1)
    os.close(ready_end)


if __name__ == "__main__":
    main(sys.argv[1:])
