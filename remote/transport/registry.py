"""Transports by their names, and `Transports`, which reaches every host by its own."""

from __future__ import annotations

import importlib
import resource
import threading
from collections.abc import Iterable, Sequence

from remote.cluster.hosts import Host
from remote.cluster.transports import PACKAGE, is_transport
from remote.transport import Channel, Enter, Program, ReachProgress, Transport, TransportKind
from remote.transport.host_keys import HostKeys

FILES = 16
OTHERS = 256
"""Files that a launcher opens for each host, and for all else, at the most."""


def load_transport(name: str) -> TransportKind:
    """The transport of this name. Raises: LookupError, where there is none."""
    if not is_transport(name):
        raise LookupError(f"no transport is called {name!r}")
    found = importlib.import_module(f"{PACKAGE}.{name}").TRANSPORT
    assert isinstance(found, TransportKind)
    return found


def is_here(hosts: Sequence[Host]) -> bool:
    """Whether these hosts, at least one, are all this machine, so that they see its files."""
    return bool(hosts) and all(load_transport(host.transport).is_here for host in hosts)


def load_host_keys(hosts: Iterable[Host]) -> dict[str, HostKeys]:
    """By the name of a transport, who handles its host keys; without those that have none."""
    makers = {name: load_transport(name).host_keys for name in {host.transport for host in hosts}}
    return {name: make() for name, make in makers.items() if make}


class Transports:
    """Reaches every host by its own transport; itself a transport."""

    def __init__(self, hosts: Iterable[Host] = (), enter: Enter = lambda _: ()) -> None:
        """Makes the transports of these hosts at once, and those of others when they are needed.
        `enter`: what leads to a host of a lab."""
        self._enter = enter
        self._made: dict[str, Transport] = {}
        self._hosts: set[str] = set()
        self._making = threading.Lock()
        for host in hosts:
            self._of(host)

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        """See `Transport.open`. Raises: Unreachable."""
        return self._of(host).open(host, program, progress)

    def _of(self, host: Host) -> Transport:
        with self._making:
            if host.name not in self._hosts:
                self._hosts.add(host.name)
                _allow_files(FILES * len(self._hosts) + OTHERS)
            if host.transport not in self._made:
                self._made[host.transport] = load_transport(host.transport).make(self._enter)
            return self._made[host.transport]


def _allow_files(wanted: int) -> None:
    """Let this process open so many files, or as many as it may. Never fewer: what it starts
    inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
