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
        group_folder = quota.base()
        if group_folder:
            # A lab that was killed could not remove its own.
            quota.sweep(group_folder)
        elif spec.cpus:
            raise LabError(NO_GROUPS.format("no cgroup with a CPU controller is mounted"))
        lab = cls._make(spec)
        try:
            if group_folder and spec.cpus:
                lab._limit_cores(group_folder)
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
            f"{host.address} {host.name}\n::ffff:{host.address} {host.name}\n" for host in hosts
        )
        process, space, pids = namespaces.begin([etc_hosts, *(host.name for host in hosts)])
        host_rows = zip(hosts, pids, spec.rates, spec.delays or [0.0] * len(hosts), strict=True)
        lab_hosts = tuple(
            LabHost(host.name, host.address, pid, rate, delay=delay)
            for host, pid, rate, delay in host_rows
        )
        return cls(spec, LabState(space, lab_hosts), process)

    def _limit_cores(self, group_folder: Path) -> None:
        """Make a control group with its quota for every host. Raises: LabError."""
        for host, core_quota in zip(self.state.hosts, self.spec.cpus, strict=True):
            group_name = f"{self.state.space.pid}-{host.name}"
            try:
                group = quota.make(group_folder, group_name, core_quota, host.pid)
            except OSError as error:
                reason = f"cannot make a cgroup in {group_folder}: {error.strerror}"
                raise LabError(NO_GROUPS.format(reason)) from None
            self._change(replace(host, group=str(group)))

    def _wire(self) -> None:
        """Make the links between the hub and the hosts."""
        space = self.state.space
        hub_links = wires.hub()
        rate_limits = []
        for host in self.state.hosts:
            hub_links += wires.cable(host.name, host.pid)
            rate_limits += wires.limit(host.name, host.rate)
        namespaces.run(space.hub(), "ip", hub_links)
        # All in one batch: a process for each host would take seconds.
        namespaces.run(space.hub(), "tc", rate_limits)
        for host in self.state.hosts:
            host_prefix = space.host(host.pid)
            namespaces.run(host_prefix, "ip", wires.address(host.address))
            namespaces.run(host_prefix, "tc", wires.limit(INTERFACE, host.rate, host.delay))

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts for a plan."""
        return self.spec.hosts()

    def host(self, host_name: str) -> LabHost:
        """Return the host of this name. Raises: LabError, if there is none."""
        hosts_by_name = {host.name: host for host in self.state.hosts}
        if host_name not in hosts_by_name:
            known_names = ", ".join(hosts_by_name)
            raise LabError(f"no host {host_name!r} in the lab: the hosts are {known_names}")
        return hosts_by_name[host_name]

    def enter(self, host_name: str) -> tuple[str, ...]:
        """Return what to put before a command so that it runs on the host. Raises: LabError."""
        host = self.host(host_name)
        join_group = quota.join(Path(host.group)) if host.group else ()
        return (*join_group, *self.state.space.host(host.pid))

    def set_rate(self, host_name: str, rate: int) -> None:
        """Change both directions of a host's link to `rate` bits per second. Raises: LabError."""
        host = self.host(host_name)
        space = self.state.space
        namespaces.run(space.hub(), "tc", wires.limit(host_name, rate))
        namespaces.run(space.host(host.pid), "tc", wires.limit(INTERFACE, rate, host.delay))
        self._change(replace(host, rate=rate))

    def cut(self, host_name: str) -> None:
        """Unplug a host's cable: what it sends, and what is sent to it, is lost without an error.
        Raises: LabError."""
        self._plug(host_name, connected=False)

    def heal(self, host_name: str) -> None:
        """Plug a host's cable in again. Raises: LabError."""
        self._plug(host_name, connected=True)

    def _plug(self, host_name: str, connected: bool) -> None:
        host = self.host(host_name)
        namespaces.run(self.state.space.hub(), "ip", wires.plug(host_name, connected))
        self._change(replace(host, connected=connected))

    def _change(self, host: LabHost) -> None:
        changed_hosts = tuple(
            host if host.name == old_host.name else old_host for old_host in self.state.hosts
        )
        self.state = replace(self.state, hosts=changed_hosts)

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
