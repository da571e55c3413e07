"""The hosts: versions, cores, network, and which of them were one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from remote.format import UNKNOWN, count, number, size
from remote.metrics.run import HostFigures, RunFigures
from tui.report.document import Section, make_table
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming

HOST_FACTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "machine": ("hostname", str),
    "cores": ("cores", number),
    "memory": ("memory", size),
    "address": ("route_address", str),
    "interface": ("route_interface", str),
    "Python": ("python", str),
    "torch": ("torch", str),
    "torchvision": ("torchvision", str),
    "platform": ("platform", str),
}
"""The columns of the table that are facts of a host, and how they look."""
RANK_FACTS = ("device", "backend", "threads")
"""The columns that are facts of its ranks."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table of all hosts, each once as long as its facts are the same."""
    rows = dict.fromkeys(row for run in subject.runs for row in _rows(run))
    if not rows:
        return None
    versions = dict.fromkeys(_describe_versions(run) for run in subject.runs)
    return Section(
        "machines",
        "Hosts and versions",
        [f"Launched with {text}." for text in versions if text],
        [make_table("Hosts", ("host", *HOST_FACTS, *RANK_FACTS), list(rows))],
    )


def _rows(run: RunFigures) -> Iterator[tuple[str, ...]]:
    for index, host in enumerate(run.hosts):
        host_row = [host.name]
        for fact, format_fact in HOST_FACTS.values():
            fact_value = host.facts.get(fact)
            host_row.append(format_fact(fact_value) if fact_value else UNKNOWN)
        rank_facts = [rank.facts for rank in run.ranks if rank.host == index and rank.facts]
        for fact in RANK_FACTS:
            fact_values = dict.fromkeys(str(facts[fact]) for facts in rank_facts)
            host_row.append(", ".join(fact_values) or UNKNOWN)
        yield tuple(host_row)


def _describe_versions(run: RunFigures) -> str:
    versions = run.launched_with.items()
    return ", ".join(f"{name} {text}" for name, text in versions if name != "executable")


def describe_virtual_hosts(subject: ReportSubject) -> list[str]:
    """Return a sentence for each machine that was several virtual hosts, such as those of a lab.

    Hosts of one name, as those of --local, are no virtual ones: a remark on the run is about them.
    """
    machines: dict[str, list[HostFigures]] = {}
    # The run with the most hosts has them all.
    for run in sorted(subject.runs, key=lambda run: len(run.hosts)):
        boot_ids = [host.facts.get("boot_id", "") for host in run.hosts]
        for boot_id in filter(None, boot_ids):
            pairs = zip(run.hosts, boot_ids, strict=True)
            machines[boot_id] = [host for host, other_id in pairs if other_id == boot_id]
    sentences = []
    for hosts in machines.values():
        # One name for several hosts is that of the machine itself.
        if len({host.facts["hostname"] for host in hosts}) > 1:
            host_names = ", ".join(host.name for host in hosts)
            cores = max(host.machine_cores for host in hosts)
            machine_text = f"one machine with {count(cores, 'core')}" if cores else "one machine"
            sentences.append(
                f"{host_names} are not separate computers: they are virtual hosts on "
                f"{machine_text}."
            )
    return sentences
