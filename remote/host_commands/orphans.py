"""Find processes that ended runs have left behind, on hosts and on this machine, and end them.

`find_leftovers` only proposes. The caller asks a person before `end_leftovers`, and a host looks
again at each process before it signals it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from remote.cluster.hosts import Host
from remote.host_commands.run_on_hosts import run_on_hosts
from remote.record import layout
from remote.transport import Transport
from training.agent import local_api
from training.wire.host_replies import LiveRun, Orphan, Signalled

ENDING = 15.0
"""Seconds beyond its timeout that a host may need to end processes."""

ProcessKey = tuple[str, int, int]
"""A host's name, and the pid and start of a process there, which name the process for good."""


@dataclass(frozen=True)
class Leftover:
    """A process of an ended run."""

    host: str
    """"" for this machine."""
    orphan: Orphan

    @property
    def key(self) -> ProcessKey:
        """The key of the process."""
        return self.host, self.orphan.pid, self.orphan.start


@dataclass(frozen=True)
class Leftovers:
    """What was found on all hosts."""

    processes: tuple[Leftover, ...] = ()
    spared: tuple[str, ...] = ()
    """Live runs that have processes without an agent on some host."""
    problems: tuple[str, ...] = ()
    """Why hosts could not answer."""


def find_leftovers(transport: Transport | None, hosts: Sequence[Host], runs_dir: Path) -> Leftovers:
    """Find the processes of runs that are live nowhere. Several hosts may be one machine: each
    process counts once."""
    answers = run_on_hosts(transport, hosts, "orphans") if transport else []
    leftovers: dict[object, Leftover] = {}
    live_runs = set()
    for answer in answers:
        for reply in answer.replies:
            if isinstance(reply, LiveRun):
                live_runs.add(reply.run)
            elif isinstance(reply, Orphan):
                leftovers.setdefault(_identity(reply), Leftover(answer.host.name, reply))
    # Elsewhere there is no /proc to find them in.
    if local_api.LINUX:
        for orphan in local_api.find_orphans(layout.workdirs(runs_dir)):
            leftovers.setdefault(_identity(orphan), Leftover("", orphan))
    # A run that is live on one host is not over: what it has elsewhere may still belong to it.
    spared_runs = live_runs.intersection(leftover.orphan.run for leftover in leftovers.values())
    return Leftovers(
        tuple(
            leftover for leftover in leftovers.values() if leftover.orphan.run not in spared_runs
        ),
        tuple(sorted(spared_runs)),
        tuple(answer.error for answer in answers if answer.error),
    )


_identity = attrgetter("run", "host", "pid", "start")
"""Names a process, also where several hosts are one machine."""


def end_leftovers(
    transport: Transport | None,
    hosts: Sequence[Host],
    runs_dir: Path,
    leftovers: Iterable[Leftover],
) -> tuple[list[Leftover], list[str]]:
    """End these processes, on all hosts at once. Return those that are still there, and why hosts
    could not answer."""
    leftovers_by_host: dict[str, list[Leftover]] = defaultdict(list)
    for leftover in leftovers:
        leftovers_by_host[leftover.host].append(leftover)
    ended_keys = _end_here(runs_dir, leftovers_by_host.get("", []))
    host_errors = []

    def process_words(host: Host) -> list[str]:
        orphans = [leftover.orphan for leftover in leftovers_by_host[host.name]]
        return [f"{orphan.pid}:{orphan.start}" for orphan in orphans]

    if transport:
        asked_hosts = [host for host in hosts if host.name in leftovers_by_host]
        answers = run_on_hosts(transport, asked_hosts, "end", process_words, extra_seconds=ENDING)
        for answer in answers:
            ended_keys |= _ended_keys(answer.host.name, answer.replies)
        host_errors = [answer.error for answer in answers if answer.error]
    ordered_leftovers = [
        leftover for host_leftovers in leftovers_by_host.values() for leftover in host_leftovers
    ]
    return [
        leftover for leftover in ordered_leftovers if leftover.key not in ended_keys
    ], host_errors


def _end_here(runs_dir: Path, leftovers: Sequence[Leftover]) -> set[ProcessKey]:
    if not leftovers:
        return set()
    process_ids = [(leftover.orphan.pid, leftover.orphan.start) for leftover in leftovers]
    return _ended_keys("", local_api.end_processes(layout.workdirs(runs_dir), process_ids))


def _ended_keys(host_name: str, replies: Iterable[object]) -> set[ProcessKey]:
    ended_keys = set()
    for reply in replies:
        if isinstance(reply, Signalled) and reply.gone:
            ended_keys.add((host_name, reply.pid, reply.start))
    return ended_keys
