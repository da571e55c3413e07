"""Where it ran: hosts, versions, cores, network, clocks, load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from remote.format import UNKNOWN, number, or_unknown, size
from remote.metrics.run import RunFigures
from tui.report.document import Section, Table
from tui.report.numbers.timing import Timing
from tui.report.subject import Subject

HEAD = (
    *("host", "machine", "cores", "load", "memory", "address", "clock offset", "Python", "torch"),
    *("torchvision", "device", "backend", "threads", "platform"),
)


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table of all hosts, each once as long as its facts are the same, and the versions."""
    found = dict.fromkeys(row for run in subject.runs for row in _rows(run))
    merged: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in found:  # load and clock differ from run to run: the first counts
        merged.setdefault((*row[:3], *row[4:6], *row[7:]), row)
    if not merged:
        return None
    versions = dict.fromkeys(_versions(run) for run in subject.runs)
    note = (
        "load: busy cores as the run began. clock offset: of the host's clock to the launcher's, "
        "which is taken out of all times. Both are those of the host's first run here."
    )
    return Section(
        "machines",
        "Hosts and versions",
        [f"Launched with {one}." for one in versions if one],
        [Table("Hosts", HEAD, list(merged.values()), note)],
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
        yield (
            host.name,
            str(facts["hostname"]),
            number(facts["cores"]),
            number(facts["load"]),
            size(facts["memory"]),
            or_unknown(_address(facts)),
            UNKNOWN if offset is None else f"{offset * 1000:+.1f} ms",
            *(or_unknown(facts[name]) for name in ("python", "torch", "torchvision")),
            *(_of_ranks(ranks, name) for name in ("device", "backend", "threads")),
            str(facts["platform"]),
        )


def _address(facts: dict[str, Any]) -> str:
    address = facts.get("route_address")
    interface = facts.get("route_interface")
    return " ".join(filter(None, (address, interface)))


def _of_ranks(ranks: list[dict[str, Any]], name: str) -> str:
    return ", ".join(dict.fromkeys(str(facts[name]) for facts in ranks)) or UNKNOWN


def _versions(run: RunFigures) -> str:
    known = run.launched_with.items()
    return ", ".join(f"{name} {version}" for name, version in known if name != "executable")
