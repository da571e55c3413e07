"""For whom everybody waits while a run starts: the hosts or ranks furthest behind, where they are,
and for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remote.format import duration, ranks_text
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import HostPhase, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.transport.registry import kind

PATIENCE = 4.0
"""Seconds in one phase before anybody is named, so that it is said within five."""
NAMES = 3
"""Hosts that are named one by one; of more, their number."""

REACHING = (HostPhase.WAITING, HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""The way to a host, in order; then its ranks begin theirs."""
STARTING = (
    RankPhase.WAITING,
    RankPhase.IMPORTING,
    RankPhase.LOADING,
    RankPhase.RENDEZVOUS,
    RankPhase.JOINING,
)
"""The way of a rank to its first step, in order."""


@dataclass(frozen=True)
class Wait:
    """`who` is waited for, `what` says how far they are, `seconds` how long they have been
    there."""

    who: str
    what: str
    seconds: float

    def text(self) -> str:
        """In words: "waiting for node2: connecting, no answer yet (6 s)"."""
        return f"waiting for {self.who}: {self.what} ({duration(self.seconds)})"


def waiting(run: RunState, now: float) -> tuple[Wait, ...]:
    """Whom all others wait for at the time `now`, by the session's clock. Nobody once all train, or
    before `PATIENCE`."""
    if run.phase not in (RunPhase.STARTING, RunPhase.TRAINING):
        return ()
    found = _for_hosts(run, now) or _for_ranks(run, now)
    return tuple(wait for wait in found if wait.seconds >= PATIENCE)


def age(since: float, run: RunState, now: float) -> float:
    """Seconds that something has been in its phase."""
    return max(0.0, now - (since or run.started)) if run.started else 0.0


def _for_hosts(run: RunState, now: float) -> list[Wait]:
    """For those that are not reached yet, or have gone silent on the way to the first step."""
    silent = [
        host for host in run.hosts if host.phase is HostPhase.SILENT and not _trains(host, run)
    ]
    if silent:
        return [
            Wait(
                _names(silent, run),
                "no sign of life",
                max(age(host.heard, run, now) for host in silent),
            )
        ]
    for phase in REACHING:
        behind = [host for host in run.hosts if host.phase is phase]
        if behind:
            again = all(host.hello for host in behind)
            how = (
                "the connection broke, no answer yet"
                if again
                else _words(phase, _reached(behind, run))
            )
            return [
                Wait(_names(behind, run), how, max(age(host.since, run, now) for host in behind))
            ]
    return []


def _reached(hosts: Iterable[HostState], run: RunState) -> str:
    """How a text begins that is about hosts which their transport has reached."""
    words = (kind(run.plan.hosts[host.index].transport).reached for host in hosts)
    return next((f"{word}, " for word in words if word), "")


def _words(phase: HostPhase, reached: str) -> str:
    match phase:
        case HostPhase.DEPLOYING:
            return f"{reached}the code is on its way"
        case HostPhase.STARTING:
            return f"{reached}its Python has not answered yet"
        case _:
            return "connecting, no answer yet"


def _trains(host: HostState, run: RunState) -> bool:
    return not any(rank.host == host.index and rank.phase in STARTING for rank in run.ranks)


def _for_ranks(run: RunState, now: float) -> list[Wait]:
    for phase in STARTING:
        behind = [rank for rank in run.ranks if rank.phase is phase]
        if behind:
            return _together(behind, run, now)
    return []


def _together(behind: Sequence[RankState], run: RunState, now: float) -> list[Wait]:
    """One wait for all hosts of which every rank is that far behind, and one for each of the
    others."""
    phase = behind[0].phase
    behind = [rank for rank in behind if run.hosts[rank.host].phase is HostPhase.READY]
    by_host = {
        host.index: [rank for rank in behind if rank.host == host.index] for host in run.hosts
    }
    whole = [
        host
        for host in run.hosts
        if by_host[host.index] and _all_of(host, by_host[host.index], run)
    ]
    found = []
    if whole:
        ages = [_age(rank, run, now) for host in whole for rank in by_host[host.index]]
        since = (
            min(ages) if phase is RankPhase.JOINING else max(ages)
        )  # they join each other when the last one has come
        found.append(Wait(_names(whole, run), _stage(phase, whole, run), since))
    for host in run.hosts:
        ranks = by_host[host.index]
        if ranks and host not in whole:
            who = f"{ranks_text([rank.rank for rank in ranks])} on {host.name}"
            found.append(
                Wait(who, _stage(phase, [host], run), max(_age(rank, run, now) for rank in ranks))
            )
    return found[:NAMES]


def _age(rank: RankState, run: RunState, now: float) -> float:
    """A rank that is not started yet waits since its host was ready, or since the attempt before
    was over."""
    return age(rank.since or run.hosts[rank.host].since, run, now)


def _all_of(host: HostState, ranks: Sequence[RankState], run: RunState) -> bool:
    return len(ranks) == sum(rank.host == host.index for rank in run.ranks)


def _stage(phase: RankPhase, hosts: Iterable[HostState], run: RunState) -> str:
    reached = _reached(hosts, run)
    where = run.rendezvous or "the port where ranks meet"
    match phase:
        case RankPhase.WAITING:
            return f"{reached}ready, but no rank is started yet"
        case RankPhase.IMPORTING:
            return "importing torch" if run.plan.job else "starting the program"
        case RankPhase.LOADING:
            return f"loading {run.plan.job.dataset}" if run.plan.job else "loading"
        case RankPhase.RENDEZVOUS:
            return f"{reached}python started, has not reached {where}"
        case _:
            return f"has reached {where}, connects to the other ranks"


def _names(hosts: Sequence[HostState], run: RunState) -> str:
    """node1; node1, node2 and node3; node1, node2, node3 and 5 more; all 8 hosts."""
    if len(hosts) == len(run.hosts) > 1:
        return f"all {len(hosts)} hosts"
    names = [host.name for host in hosts[:NAMES]]
    more = [f"{len(hosts) - NAMES} more"] if len(hosts) > NAMES else []
    *head, last = names + more
    return f"{', '.join(head)} and {last}" if head else last
