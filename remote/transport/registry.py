"""Find transports by their names, and reach every host by its own."""

from __future__ import annotations

import importlib
import resource
import threading
from collections.abc import Iterable, Sequence

from remote.cluster import hosts as cluster_hosts
from remote.cluster.hosts import Host
from remote.transport import Channel, Enter, Program, ReachProgress, Transport, TransportKind
from remote.transport.host_keys import HostKeys

FILES_PER_HOST = 16
"""Files that a launcher opens for each host at the most."""
OTHER_FILES = 256
"""Files that it opens for all else at the most."""


def load_transport(transport_name: str) -> TransportKind:
    """Return the transport of this name. Raises: LookupError, if there is none."""
    if transport_name not in cluster_hosts.TRANSPORTS:
        raise LookupError(f"no transport is called {transport_name!r}")
    transport_kind = importlib.import_module(f"remote.transport.{transport_name}").TRANSPORT
    assert isinstance(transport_kind, TransportKind)
    return transport_kind


def is_here(hosts: Sequence[Host]) -> bool:
    """Return True if these hosts, at least one, are all this machine, so that they see its
    files."""
    return bool(hosts) and all(load_transport(host.transport).is_here for host in hosts)


def load_host_keys(hosts: Iterable[Host]) -> dict[str, HostKeys]:
    """Return who handles the host keys of each transport, by its name; without those that have
    none."""
    key_makers = {
        transport_name: load_transport(transport_name).host_keys
        for transport_name in {host.transport for host in hosts}
    }
    return {
        transport_name: make_keys() for transport_name, make_keys in key_makers.items() if make_keys
    }


class Transports:
    """Reaches every host by its own transport; itself a transport."""

    def __init__(self, hosts: Iterable[Host] = (), enter: Enter = lambda _: ()) -> None:
        """Make the transports of these hosts at once, and those of others when they are needed.
        `enter`: see `Enter`."""
        self._enter = enter
        self._made: dict[str, Transport] = {}
        self._host_names: set[str] = set()
        self._lock = threading.Lock()
        for host in hosts:
            self._transport_of(host)

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        """Open a channel as `Transport.open` does. Raises: Unreachable."""
        return self._transport_of(host).open(host, program, progress)

    def _transport_of(self, host: Host) -> Transport:
        with self._lock:
            if host.name not in self._host_names:
                self._host_names.add(host.name)
                _allow_files(FILES_PER_HOST * len(self._host_names) + OTHER_FILES)
            if host.transport not in self._made:
                self._made[host.transport] = load_transport(host.transport).make(self._enter)
            return self._made[host.transport]


def _allow_files(needed_files: int) -> None:
    """Let this process open so many files, or as many as it may. Never fewer: what it starts
    inherits the limit."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    no_limit = resource.RLIM_INFINITY
    if soft_limit != no_limit and soft_limit < needed_files:
        soft_limit = needed_files if hard_limit == no_limit else min(needed_files, hard_limit)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard_limit))
