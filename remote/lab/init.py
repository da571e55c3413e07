"""The first process of a lab's PID namespace: as long as it lives the lab lives, and it lives as
long as its stdin is open.

Run as a program. The arguments are lines for the lab's own /etc/hosts, then the hosts' names, each
with `=CORES` where this process itself has to see to its quota. It gives each host a network
namespace and a name of its own, held by one process per host, then says READY. When it ends the
kernel kills whatever else lives in the lab.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import tempfile
import time

READY = "ready"
TICK = 0.05
"""Seconds between two looks at how much the hosts with a coarse quota have used."""
_NEWUTS, _NEWNET, _BIND, _NAME = 0x04000000, 0x40000000, 4096, 15
_HOSTS = "/etc/hosts"
_libc = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> None:
    """Found the hosts, and stay until stdin ends."""
    signal.signal(
        signal.SIGCHLD, signal.SIG_IGN
    )  # orphans of the whole lab end up here, and nobody asks how they ended
    _libc.prctl(_NAME, b"rankboard-lab")
    known, *hosts = words
    _know(known)
    quotas = []
    for name, _, cores in (word.partition("=") for word in hosts):
        pid = _hold(name)
        if cores:
            quotas.append(Quota(pid, float(cores)))
    os.write(1, f"{READY}\n".encode())
    while not select.select([0], [], [], TICK if quotas else None)[0] or os.read(0, 4096):
        members = _members() if quotas else {}
        for quota in quotas:
            quota.apply(members.get(quota.namespace, []))


def _know(known: str) -> None:
    """Let the lab's processes find the hosts by name, and names by address, as else each look-up is
    a warning of torch's."""
    if not os.path.exists(_HOSTS):
        return
    with open(_HOSTS, errors="replace") as file:
        text = file.read().rstrip("\n") + "\n" + known
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


def _hold(name: str) -> int:
    """The process that holds a new host's namespaces, once it has them."""
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
    return pid


class Quota:
    """The coarse way to limit a host: its processes are stopped while they have used more than
    `cores` allow."""

    def __init__(self, holder: int, cores: float) -> None:
        self.namespace = _namespace(holder)
        self._cores, self._allowed, self._stopped = cores, 0.0, False
        self._used: dict[int, float] = {}
        self._looked = time.monotonic()

    def apply(self, members: list[int]) -> None:
        """Stop or continue the processes `members` by what they have used since the last call."""
        now, used = time.monotonic(), {pid: _seconds(pid) for pid in members}
        spent = sum(seconds - self._used.get(pid, 0.0) for pid, seconds in used.items())
        self._allowed = min(
            self._cores * TICK, self._allowed + self._cores * (now - self._looked) - spent
        )
        self._used, self._looked = used, now
        was, self._stopped = self._stopped, self._allowed < 0
        if self._stopped or was:
            for pid in members:
                _send(pid, signal.SIGSTOP if self._stopped else signal.SIGCONT)


def _members() -> dict[str, list[int]]:
    """By network namespace the processes that compute: not those that hold or watch, nor what
    entered from outside."""
    found: dict[str, list[int]] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                start, _, rest = file.read().rpartition(b")")
            if b"(rankboard-" not in start and rest.split()[1] != b"0":
                found.setdefault(_namespace(pid), []).append(pid)
        except OSError:  # it has ended
            continue
    return found


def _namespace(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def _seconds(pid: int) -> float:
    """CPU time of a process, all its threads together."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main(sys.argv[1:])
