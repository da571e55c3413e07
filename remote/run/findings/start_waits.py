"""Finds for whom everybody waits while a run starts: the hosts or ranks furthest behind, where they
are, and for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remote.format import duration, ranks_text
from remote.run.run_state import RunState
from remote.run.state.host_state import Hosts, HostState
from remote.run.state.phases import HostPhase, RankPhase, RunPhase
from remote.transport.registry import load_transport

PATIENCE = 4.0
"""Seconds in one phase before anybody is named, so that it is said within five."""
NAMES = 3
"""Hosts that are named one by one; of more, their number."""

REACHING = (HostPhase.WAITING, HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""The way to a host, in order; then its ranks begin theirs."""
_REACHED = {
    HostPhase.DEPLOYING: "the code is on its way",
    HostPhase.STARTING: "its Python has not answered yet",
}
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
    """Hosts or ranks that all others wait for."""

    subject: str
    """What they are called."""
    progress: str
    """How far they are."""
    seconds: float
    """How long they have been there."""

    def text(self) -> str:
        """Return it in words: "waiting for node2: connecting, no answer yet (6 s)"."""
        return f"waiting for {self.subject}: {self.progress} ({duration(self.seconds)})"


def waiting(run: RunState, now: float) -> tuple[Wait, ...]:
    """Return whom all others wait for at the time `now`, by the session's clock.

    It is nobody once all train, or before `PATIENCE`.
    """
    if run.phase not in (RunPhase.STARTING, RunPhase.TRAINING):
        return ()
    waits = _wait_for_hosts(run, now) or _wait_for_ranks(run, now)
    return tuple(wait for wait in waits if wait.seconds >= PATIENCE)


def age(since: float, run: RunState, now: float) -> float:
    """Return the seconds that something has been in its phase."""
    return max(0.0, now - (since or run.started)) if run.started else 0.0


def _wait_for_hosts(run: RunState, now: float) -> list[Wait]:
    """Return hosts that are not reached yet, or have gone silent on the way to the first step."""
    # A host that falls silent later is an alert, and nobody's start waits for it.
    starting = {rank.host for rank in run.ranks if rank.phase in STARTING}
    silent = [
        host for host in run.hosts if host.phase is HostPhase.SILENT and host.index in starting
    ]
    if silent:
        seconds = max(age(host.heard, run, now) for host in silent)
        return [Wait(_names(silent, run), "no sign of life", seconds)]
    for phase in REACHING:
        behind = [host for host in run.hosts if host.phase is phase]
        if behind:
            progress = "connecting, no answer yet"
            if all(host.hello for host in behind):
                progress = "the connection broke, no answer yet"
            elif phase in _REACHED:
                progress = f"{_reached(behind, run)}{_REACHED[phase]}"
            seconds = max(age(host.since, run, now) for host in behind)
            return [Wait(_names(behind, run), progress, seconds)]
    return []


def _reached(hosts: Iterable[HostState], run: RunState) -> str:
    """Return how a text begins about hosts that their transport has reached."""
    words = (load_transport(run.plan.hosts[host.index].transport).reached for host in hosts)
    return next((f"{word}, " for word in words if word), "")


def _wait_for_ranks(run: RunState, now: float) -> list[Wait]:
    """Return one wait for the hosts on which all ranks are behind, and one for each other host."""
    phases = {rank.phase for rank in run.ranks}
    phase = next((phase for phase in STARTING if phase in phases), None)
    if phase is None:
        return []
    waits = []
    whole = []
    ages_of_whole: list[float] = []
    for host in run.hosts:
        ranks = [rank for rank in run.ranks if rank.host == host.index]
        behind = [rank.rank for rank in ranks if rank.phase is phase]
        if not behind or host.phase is not HostPhase.READY:
            continue
        # A rank that is not started yet waits since its host was ready, or since the attempt
        # before was over.
        ages = [age(run.ranks[rank].since or host.since, run, now) for rank in behind]
        if len(behind) == len(ranks):
            whole.append(host)
            ages_of_whole += ages
        else:
            subject = f"{ranks_text(behind)} on {host.name}"
            waits.append(Wait(subject, _describe_phase(phase, [host], run), max(ages)))
    if whole:
        # Ranks join each other when the last one has come.
        seconds = min(ages_of_whole) if phase is RankPhase.JOINING else max(ages_of_whole)
        waits.insert(0, Wait(_names(whole, run), _describe_phase(phase, whole, run), seconds))
    return waits[:NAMES]


def _describe_phase(phase: RankPhase, hosts: Iterable[HostState], run: RunState) -> str:
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


def _names(hosts: Hosts, run: RunState) -> str:
    """Return "node1", "node1 and node2", "node1, node2, node3 and 5 more" or "all 8 hosts"."""
    if len(hosts) == len(run.hosts) > 1:
        return f"all {len(hosts)} hosts"
    names = [host.name for host in hosts[:NAMES]]
    more = [f"{len(hosts) - NAMES} more"] if len(hosts) > NAMES else []
    *head, last = names + more
    return f"{', '.join(head)} and {last}" if head else last
