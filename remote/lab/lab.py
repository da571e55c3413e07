"""`Lab`: hosts with addresses, links and quotas; how to start, change and end them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from remote.cluster.hosts import Host
from remote.lab import namespaces, quota, wires
from remote.lab.namespaces import Space
from remote.lab.spec import INTERFACE, LabError, LabSpec

NO_GROUPS = "--cpus limits hosts by cgroups: {}; run as root, or leave --cpus out"


@dataclass(frozen=True)
class LabHost:
    """A host of a lab: `pid` holds its namespaces; `group` is its control group, or empty.

    `rate` in bits per second; `delay` of what it sends in seconds.
    """

    name: str
    address: str
    pid: int
    rate: int
    group: str = ""
    connected: bool = True
    delay: float = 0.0


@dataclass(frozen=True)
class LabState:
    """What a process outside needs to enter and change a lab."""

    space: Space
    hosts: tuple[LabHost, ...]


class Lab:
    """A running lab. It ends when the process that started it closes it or ends."""

    def __init__(
        self, spec: LabSpec, state: LabState, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        """`process` holds the lab. Only the process that started the lab has it."""
        self.spec = spec
        self.state = state
        self._process = process

    @classmethod
    def start(cls, spec: LabSpec) -> Lab:
        """Make the hosts and the network between them. On an error nothing is left. Raises:
        LabError."""
        namespaces.check()
        folder = quota.base()
        if folder:
            quota.sweep(folder)
        elif spec.cpus:
            raise LabError(NO_GROUPS.format("no cgroup with a CPU controller is mounted"))
        lab = cls._make(spec)
        try:
            if folder and spec.cpus:
                lab._limit_cores(folder)
            lab._wire()
        except BaseException:
            lab.close()
            raise
        return lab

    @classmethod
    def _make(cls, spec: LabSpec) -> Lab:
        """Make the hosts, without network and quotas."""
        hosts = spec.hosts()
        # torch looks up the names of addresses that are mapped to IPv6.
        etc_hosts = "".join(
            f"{it.address} {it.name}\n::ffff:{it.address} {it.name}\n" for it in hosts
        )
        process, space, pids = namespaces.begin([etc_hosts, *(host.name for host in hosts)])
        rows = zip(hosts, pids, spec.rates, spec.delays or [0.0] * len(hosts), strict=True)
        lab_hosts = tuple(
            LabHost(host.name, host.address, pid, rate, delay=delay)
            for host, pid, rate, delay in rows
        )
        return cls(spec, LabState(space, lab_hosts), process)

    def _limit_cores(self, folder: Path) -> None:
        """Make a control group with its quota for every host. Raises: LabError."""
        for host, cores in zip(self.state.hosts, self.spec.cpus, strict=True):
            name = f"{self.state.space.pid}-{host.name}"
            try:
                group = quota.make(folder, name, cores, host.pid)
            except OSError as error:
                reason = f"cannot make a cgroup in {folder}: {error.strerror}"
                raise LabError(NO_GROUPS.format(reason)) from None
            self._change(replace(host, group=str(group)))

    def _wire(self) -> None:
        """Make the links between the hub and the hosts."""
        space = self.state.space
        hub_links = wires.hub()
        limits = []
        for host in self.state.hosts:
            hub_links += wires.cable(host.name, host.pid)
            limits += wires.limit(host.name, host.rate)
        namespaces.run(space.hub(), "ip", hub_links)
        namespaces.run(space.hub(), "tc", limits)
        for host in self.state.hosts:
            prefix = space.host(host.pid)
            namespaces.run(prefix, "ip", wires.address(host.address))
            namespaces.run(prefix, "tc", wires.limit(INTERFACE, host.rate, host.delay))

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts for a plan."""
        return self.spec.hosts()

    def host(self, name: str) -> LabHost:
        """Return the host of this name. Raises: LabError, if there is none."""
        by_name = {host.name: host for host in self.state.hosts}
        if name not in by_name:
            known = ", ".join(by_name)
            raise LabError(f"no host {name!r} in the lab: the hosts are {known}")
        return by_name[name]

    def enter(self, name: str) -> tuple[str, ...]:
        """Return what to put before a command so that it runs on the host. Raises: LabError."""
        host = self.host(name)
        join_group = quota.join(Path(host.group)) if host.group else ()
        return (*join_group, *self.state.space.host(host.pid))

    def set_rate(self, name: str, rate: int) -> None:
        """Change both directions of a host's link to `rate` bits per second. Raises: LabError."""
        host = self.host(name)
        space = self.state.space
        namespaces.run(space.hub(), "tc", wires.limit(name, rate))
        namespaces.run(space.host(host.pid), "tc", wires.limit(INTERFACE, rate, host.delay))
        self._change(replace(host, rate=rate))

    def cut(self, name: str) -> None:
        """Unplug a host's cable: what it sends, and what is sent to it, is lost without an error.
        Raises: LabError."""
        self._plug(name, connected=False)

    def heal(self, name: str) -> None:
        """Plug a host's cable in again. Raises: LabError."""
        self._plug(name, connected=True)

    def _plug(self, name: str, connected: bool) -> None:
        host = self.host(name)
        namespaces.run(self.state.space.hub(), "ip", wires.plug(name, connected))
        self._change(replace(host, connected=connected))

    def _change(self, host: LabHost) -> None:
        hosts = tuple(host if host.name == other.name else other for other in self.state.hosts)
        self.state = replace(self.state, hosts=hosts)

    def close(self) -> None:
        """End the lab with every process in it. May be called several times."""
        if self._process:
            namespaces.end(self._process)
            self._process = None
            for host in self.state.hosts:
                if host.group:
                    quota.remove(Path(host.group))

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
