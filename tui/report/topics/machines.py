"""The hosts: versions, cores, network, clocks, load, and which of them were one machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from remote.format import UNKNOWN, count, number, or_unknown, size
from remote.metrics.run import HostFigures, RunFigures
from tui.report.document import ReportTable, Section
from tui.report.formatting import format_link
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming

HEAD = (
    "host",
    "machine",
    "cores",
    "load",
    "memory",
    "address",
    "clock offset",
    "Python",
    "torch",
    "torchvision",
    "device",
    "backend",
    "threads",
    "platform",
)
VARYING = {"load", "clock offset"}
"""Columns that differ from run to run: those of the first run are shown."""
NOTE = (
    "load: busy cores as the run began. clock offset: of the host's clock to the launcher's, "
    "which is taken out of all times. Both are those of the host's first run here."
)
Machine = tuple[HostFigures, ...]
"""The hosts that are one machine."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table of all hosts, each once as long as its facts are the same."""
    rows: dict[tuple[str, ...], tuple[str, ...]] = {}
    for run in subject.runs:
        for row in _rows(run):
            cells = zip(HEAD, row, strict=True)
            lasting = tuple(cell for name, cell in cells if name not in VARYING)
            rows.setdefault(lasting, row)
    if not rows:
        return None
    versions = dict.fromkeys(_describe_versions(run) for run in subject.runs)
    return Section(
        "machines",
        "Hosts and versions",
        [f"Launched with {text}." for text in versions if text],
        [ReportTable("Hosts", HEAD, list(rows.values()), NOTE)],
    )


def _rows(run: RunFigures) -> Iterator[tuple[str, ...]]:
    offsets = {host["name"]: host.get("clock_offset") for host in run.summary["hosts"]}
    for index, host in enumerate(run.hosts):
        facts = host.facts
        if not facts:
            yield (host.name, *[UNKNOWN] * (len(HEAD) - 1))
            continue
        ranks = [rank.facts for rank in run.ranks if rank.host == index and rank.facts]
        offset = offsets.get(host.name)
        address = [facts.get("route_address"), facts.get("route_interface")]
        yield (
            host.name,
            str(facts["hostname"]),
            number(facts["cores"]),
            number(facts["load"]),
            size(facts["memory"]),
            or_unknown(" ".join(filter(None, address))),
            UNKNOWN if offset is None else f"{offset * 1000:+.1f} ms",
            or_unknown(facts["python"]),
            or_unknown(facts["torch"]),
            or_unknown(facts["torchvision"]),
            _join_facts(ranks, "device"),
            _join_facts(ranks, "backend"),
            _join_facts(ranks, "threads"),
            str(facts["platform"]),
        )


def _join_facts(ranks: list[dict[str, Any]], name: str) -> str:
    values = dict.fromkeys(str(facts[name]) for facts in ranks)
    return ", ".join(values) or UNKNOWN


def _describe_versions(run: RunFigures) -> str:
    versions = run.launched_with.items()
    return ", ".join(f"{name} {text}" for name, text in versions if name != "executable")


# Hosts that share a machine -----------------------------------------------------------------------


def describe_virtual_hosts(subject: ReportSubject) -> list[str]:
    """Return a sentence for each machine that was several virtual hosts, such as those of a lab.

    Hosts of one name, as those of --local, are no virtual ones: a remark on the run is about them.
    """
    links = {group.link for group in subject.measured if group.link}
    sentences = []
    for hosts in _find_shared(subject):
        if len({host.facts["hostname"] for host in hosts}) > 1:
            names = ", ".join(host.name for host in hosts)
            sentences.append(
                f"{names} are not separate computers: they are {len(hosts)} virtual hosts on one "
                f"machine{_describe_cores(hosts)}{_describe_shares(hosts, links)}."
            )
    return sentences


def describe_shared_machines(subject: ReportSubject) -> list[str]:
    """Return which machines were several hosts: "4 hosts on one machine with 2 cores"."""
    return [
        f"{len(hosts)} hosts on one machine{_describe_cores(hosts)}"
        for hosts in _find_shared(subject)
    ]


def _find_shared(subject: ReportSubject) -> list[Machine]:
    """Return the hosts that were one machine, of the run that had most of them."""
    largest: dict[str, Machine] = {}
    for run in subject.runs:
        for boot, hosts in _group_by_boot(run).items():
            before = largest.get(boot, ())
            # Hosts report all cores of their machine only with their first sample.
            is_known = _machine_cores(hosts) > 0
            if len(hosts) > len(before) or (len(hosts) == len(before) and is_known):
                largest[boot] = hosts
    return [hosts for hosts in largest.values() if len(hosts) > 1]


def _group_by_boot(run: RunFigures) -> dict[str, Machine]:
    machines: dict[str, Machine] = {}
    for host in run.hosts:
        boot = host.facts.get("boot_id")
        if boot:
            machines[boot] = (*machines.get(boot, ()), host)
    return machines


def _machine_cores(hosts: Machine) -> int:
    return max(host.machine_cores for host in hosts)


def _describe_cores(hosts: Machine) -> str:
    cores = _machine_cores(hosts)
    return f" with {count(cores, 'core')}" if cores else ""


def _describe_shares(hosts: Machine, links: set[float]) -> str:
    """Return what each host has, as far as it is the same of all."""
    shares = []
    cores = {host.facts["cores"] for host in hosts}
    if len(cores) == 1:
        shares.append(count(cores.pop(), "core"))
    if len(links) == 1:
        shares.append(f"a link of {format_link(next(iter(links)))}")
    return f", each with {' and '.join(shares)}" if shares else ""
