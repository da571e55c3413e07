"""What tests of the lab share: whether one can be made here, programs to run on its hosts, and the
traces that it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from remote.lab.lab import Lab, LabState
from remote.lab.spec import LabError, parse
from tests.kit.wait import wait

REPOSITORY = Path(__file__).parents[2]
KINDS = ("net", "pid", "mnt", "uts")

SERVE = """
import socket
with socket.create_server(("", 7)) as server:
    print("listens", flush=True)
    while True:
        with server.accept()[0] as peer:
            while peer.recv(1 << 16):
                pass
            peer.sendall(b"x")
"""
SEND = """
import json, socket, sys, time
with socket.create_connection((sys.argv[1], 7), timeout=30) as peer:
    start = time.monotonic()
    peer.sendall(bytes(int(sys.argv[2])))
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)
    print(json.dumps(time.monotonic() - start))
"""
REACH = """
import json, socket, sys
try:
    socket.create_connection((sys.argv[1], 7), timeout=0.3).close()
    print(json.dumps(True))
except OSError:
    print(json.dumps(False))
"""
FACTS = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from training.agent.host.facts import list_interfaces, usable_cores
print(json.dumps({
    "name": socket.gethostname(), "interfaces": list_interfaces(),
    "cores": usable_cores(), "uid": os.getuid(),
    "first": open("/proc/1/comm").read().strip(), "named": socket.gethostbyname("node2"),
}))
"""


@cache
def refused() -> str:
    """Why no lab can be made here, or empty text."""
    try:
        Lab.start(parse(1, "1gbit")).close()
    except LabError as error:
        return str(error)
    return ""


def python(lab: Lab, host: str, source: str, *words: str) -> Any:
    """What a program on a host prints as JSON."""
    argv = (*lab.enter(host), sys.executable, "-S", "-c", source, *words)
    return json.loads(subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout)


def facts(lab: Lab, host: str) -> dict[str, Any]:
    """What an agent would find on the host."""
    found: dict[str, Any] = python(lab, host, FACTS, str(REPOSITORY))
    return found


def serve(lab: Lab, host: str) -> None:
    """Have a host take whatever is sent to its port 7, until the lab ends."""
    process = subprocess.Popen(
        (*lab.enter(host), sys.executable, "-IS", "-c", SERVE), stdout=subprocess.PIPE
    )
    assert process.stdout
    with process.stdout as out:
        assert out.readline() == b"listens\n"
    process.returncode = 0  # it ends with the lab, and init collects it
    _serving.append(process.pid)


_serving: list[int] = []


def collect() -> None:
    """Wait for what `serve` has started, once its lab has ended."""
    while _serving:
        os.waitpid(_serving.pop(), 0)


def rate(lab: Lab, sender: str, receiver: str, size: int) -> float:
    """Bits per second at which `size` bytes go from one host to another that serves."""
    return size * 8 / float(python(lab, sender, SEND, lab.host(receiver).address, str(size)))


def reaches(lab: Lab, host: str, other: str) -> bool:
    """Whether a host can open a connection to another that serves."""
    return bool(python(lab, host, REACH, lab.host(other).address))


@dataclass(frozen=True)
class Traces:
    """What shows that a lab is there: its namespaces, its control groups, and how many interfaces
    its user has."""

    spaces: frozenset[str]
    groups: tuple[Path, ...]
    links: int

    @classmethod
    def of(cls, state: LabState) -> Traces:
        """Of a lab that lives: one PID and one mount namespace, and a network and a name for the
        hub and for each host."""
        found = frozenset[str]().union(
            *(spaces(pid) for pid in (state.space.pid, *(host.pid for host in state.hosts)))
        )
        assert len(found) == 2 + 2 * (1 + len(state.hosts))
        return cls(found, tuple(Path(host.group) for host in state.hosts if host.group), links())

    def members(self) -> list[int]:
        """The processes in any of its namespaces."""
        return [
            int(pid)
            for pid in os.listdir("/proc")
            if pid.isdigit() and self.spaces & spaces(int(pid))
        ]

    def assert_gone(self, groups: bool = True) -> None:
        """Nothing is left; after a kill the (empty) control groups are, until the next lab.

        Only processes that are there now count: the kernel may give a namespace's number to a lab
        of another test.
        """
        left = set(self.members())
        wait(lambda: not left.intersection(self.members()), "the end of what the lab ran")
        assert links() == self.links
        assert not (groups and [group for group in self.groups if group.exists()])


def spaces(pid: int) -> frozenset[str]:
    """The namespaces of a process."""
    try:
        return frozenset(os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS)
    except OSError:  # it has ended
        return frozenset()


def links() -> int:
    """How many interfaces there are outside of any lab."""
    return len(Path("/proc/net/dev").read_text().splitlines()) - 2
