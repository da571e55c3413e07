"""Finds processes that ended runs have left, on hosts and on this machine, and ends them.

`find_leftovers` only proposes. The caller asks a person before `end_leftovers`, and a host looks
again at each process before it signals it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.host_commands.run_on_hosts import run_on_hosts, typed_objects
from remote.record import layout
from remote.transport import Transport
from training.agent import local_api
from training.wire.host_replies import LiveRun, Orphan, Signalled

ENDING = 15.0
"""Seconds beyond its timeout that a host may need to end processes."""
Key = tuple[str, int, int]
"""A host's name, and the pid and start of a process there."""


@dataclass(frozen=True)
class Leftover:
    """A process of an ended run on a host, "" for this machine."""

    host: str
    orphan: Orphan

    @property
    def key(self) -> Key:
        """Names the process for good."""
        return self.host, self.orphan.pid, self.orphan.start


@dataclass(frozen=True)
class Leftovers:
    """What was found. `spared` are live runs that have processes without an agent on some host;
    `problems` are what hosts could not answer."""

    found: tuple[Leftover, ...] = ()
    spared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def find_leftovers(transport: Transport | None, hosts: Sequence[Host], runs_dir: Path) -> Leftovers:
    """The processes of runs that are live nowhere. Several hosts may be one machine: each process
    counts once."""
    answers = run_on_hosts(transport, hosts, "orphans") if transport else []
    found: dict[tuple[str, int, int, int], Leftover] = {}
    live = set()
    for answer in answers:
        for one in typed_objects(answer.objects):
            if isinstance(one, LiveRun):
                live.add(one.run)
            elif isinstance(one, Orphan):
                found.setdefault(_identity(one), Leftover(answer.host.name, one))
    for orphan in local_api.find_orphans(layout.workdirs(runs_dir)) if local_api.LINUX else ():
        found.setdefault(_identity(orphan), Leftover("", orphan))
    spared = {left.orphan.run for left in found.values()} & live
    return Leftovers(
        tuple(left for left in found.values() if left.orphan.run not in spared),
        tuple(sorted(spared)),
        tuple(answer.error for answer in answers if answer.error),
    )


def _identity(one: Orphan) -> tuple[str, int, int, int]:
    return one.run, one.host, one.pid, one.start


def end_leftovers(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, found: Iterable[Leftover]
) -> tuple[list[Leftover], list[str]]:
    """End these processes, on all hosts at once. Returns those that are still there, and what hosts
    could not do."""
    by_host: dict[str, list[Leftover]] = defaultdict(list)
    for left in found:
        by_host[left.host].append(left)
    gone = _end_here(runs_dir, by_host.get("", []))
    asked = [host for host in hosts if host.name in by_host] if transport else []
    words = {
        name: [f"{left.orphan.pid}:{left.orphan.start}" for left in some]
        for name, some in by_host.items()
    }
    problems = []
    if transport:
        for answer in run_on_hosts(transport, asked, "end", lambda host: words[host.name], ENDING):
            gone |= _gone(answer.host.name, typed_objects(answer.objects))
            problems += [answer.error] if answer.error else []
    every = [left for some in by_host.values() for left in some]
    return [left for left in every if left.key not in gone], problems


def _end_here(runs_dir: Path, found: Sequence[Leftover]) -> set[Key]:
    """End processes of this machine; those that are gone."""
    if not found:
        return set()
    wanted = [(left.orphan.pid, left.orphan.start) for left in found]
    return _gone("", local_api.end_processes(layout.workdirs(runs_dir), wanted))


def _gone(host: str, answers: Iterable[object]) -> set[Key]:
    return {
        (host, one.pid, one.start) for one in answers if isinstance(one, Signalled) and one.gone
    }
