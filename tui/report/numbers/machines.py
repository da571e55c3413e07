"""Whether the hosts are machines of their own, or share one."""

from __future__ import annotations

from collections.abc import Iterator

from remote.format import count
from remote.metrics.run import HostFigures, RunFigures
from tui.report import text
from tui.report.subject import Subject


def sentences(subject: Subject) -> list[str]:
    """A sentence for each machine that was several virtual hosts, such as those of a lab. Hosts of
    one name, as those of --local, are no virtual ones: of them a remark on the run tells."""
    links = {group.link for group in subject.measured if group.link}
    return [
        _sentence(hosts, links)
        for hosts in _shared(subject)
        if len({host.facts["hostname"] for host in hosts}) > 1
    ]


def where(subject: Subject) -> list[str]:
    """Which machines were several hosts: "4 hosts on one machine with 2 cores"."""
    return [f"{len(hosts)} hosts on one machine{_cores(hosts)}" for hosts in _shared(subject)]


def _shared(subject: Subject) -> list[tuple[HostFigures, ...]]:
    """The hosts that were one machine, of the run that had most of them."""
    most: dict[str, tuple[HostFigures, ...]] = {}
    for run in subject.runs:
        for machine, hosts in _machines(run).items():
            known = max(host.machine_cores for host in hosts) > 0
            before = most.get(machine, ())
            if len(hosts) > len(before) or (len(hosts) == len(before) and known):
                most[machine] = hosts
    return [hosts for hosts in most.values() if len(hosts) > 1]


def _machines(run: RunFigures) -> dict[str, tuple[HostFigures, ...]]:
    """The hosts of a run by the boot of the machine that they are on."""
    found: dict[str, tuple[HostFigures, ...]] = {}
    for host in run.hosts:
        boot = host.facts.get("boot_id")
        if boot:
            found[boot] = (*found.get(boot, ()), host)
    return found


def _sentence(hosts: tuple[HostFigures, ...], links: set[float]) -> str:
    each = " and ".join(_each(hosts, links))
    have = f", each with {each}" if each else ""
    return (
        f"{', '.join(host.name for host in hosts)} are not separate computers: they are "
        f"{len(hosts)} virtual hosts on one machine{_cores(hosts)}{have}."
    )


def _each(hosts: tuple[HostFigures, ...], links: set[float]) -> Iterator[str]:
    cores = {host.facts["cores"] for host in hosts}
    if len(cores) == 1:
        [share] = cores
        yield count(share, "core")
    if len(links) == 1:
        [rate] = links
        yield f"a link of {text.link(rate)}"


def _cores(hosts: tuple[HostFigures, ...]) -> str:
    known = max(host.machine_cores for host in hosts)
    return f" with {count(known, 'core')}" if known else ""
