"""Finds for whom everybody waits while a run starts: the hosts or ranks furthest behind, where they
are, and for how long. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from remote.format import duration, ranks_text
from remote.run.diagnosis.meeting_point import describe_failed_connections
from remote.run.findings.late_ranks import LateRanks, find_late_ranks
from remote.run.findings.start_halt import StartHalt, find_start_halt
from remote.run.run_state import RunState
from remote.run.state.host_state import Hosts, HostState
from remote.run.state.phases import START_PHASES, HostPhase, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.sanitise import cut
from remote.transport.registry import load_transport

NAMED_AFTER = 4.0
"""Seconds in one phase before anybody is named, so that it is said within five."""
LONGEST_COMMAND = 60
"""Characters of a command that are shown."""
NAMES = 3
"""Hosts that are named one by one; of more, their number."""
MOST_LOCATED = 16
"""Late ranks of a script of which it is said what they do."""

REACHING = (HostPhase.WAITING, HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""The way to a host, in order; then its ranks begin theirs."""
_REACHED = {
    HostPhase.DEPLOYING: "the code is on its way",
    HostPhase.STARTING: "its Python has not answered yet",
}


class Wait(Struct, frozen=True):
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

    It is nobody once all train, or before `NAMED_AFTER`.
    """
    return tuple(wait for wait in find_waits(run, now) if wait.seconds >= NAMED_AFTER)


def find_waits(run: RunState, now: float) -> list[Wait]:
    """Return whom all others wait for, also where it is not worth a word yet."""
    if run.phase not in (RunPhase.STARTING, RunPhase.TRAINING):
        return []
    return _wait_for_hosts(run, now) or _wait_for_before(run, now) or _wait_for_ranks(run, now)


def age(since: float, run: RunState, now: float) -> float:
    """Return the seconds that something has been in its phase."""
    return max(0.0, now - (since or run.started)) if run.started else 0.0


def _wait_for_hosts(run: RunState, now: float) -> list[Wait]:
    """Return hosts that are not reached yet, or have gone silent on the way to the first step."""
    # A host that falls silent later is an alert, and nobody's start waits for it.
    starting_hosts = {rank.host for rank in run.processes if rank.phase in START_PHASES}
    silent_hosts = [
        host
        for host in run.hosts
        if host.phase is HostPhase.SILENT and host.index in starting_hosts
    ]
    if silent_hosts:
        wait_seconds = max(age(host.heard, run, now) for host in silent_hosts)
        return [Wait(_name_hosts(silent_hosts, run), "no sign of life", wait_seconds)]
    for phase in REACHING:
        hosts_behind = [host for host in run.hosts if host.phase is phase]
        if hosts_behind:
            progress = "connecting, no answer yet"
            # They have spoken before, so they were reached, and are sought again.
            if all(host.hello for host in hosts_behind):
                progress = "the connection broke, no answer yet"
            elif phase in _REACHED:
                progress = f"{_describe_reached(hosts_behind, run)}{_REACHED[phase]}"
            wait_seconds = max(age(host.since, run, now) for host in hosts_behind)
            return [Wait(_name_hosts(hosts_behind, run), progress, wait_seconds)]
    return []


def _wait_for_before(run: RunState, now: float) -> list[Wait]:
    """Return hosts on which the command runs that comes before the ranks."""
    script = run.plan.script
    hosts_behind = [host for host in run.hosts if host.before_since and not host.before_end]
    if not script or not hosts_behind:
        return []
    wait_seconds = max(age(host.before_since, run, now) for host in hosts_behind)
    progress = f"before: {cut(script.before, LONGEST_COMMAND)}"
    return [Wait(_name_hosts(hosts_behind, run), progress, wait_seconds)]


def _describe_reached(hosts: Iterable[HostState], run: RunState) -> str:
    """Return how a text begins about hosts that their transport has reached."""
    words = (load_transport(run.plan.hosts[host.index].transport).reached for host in hosts)
    return next((f"{word}, " for word in words if word), "")


def _wait_for_ranks(run: RunState, now: float) -> list[Wait]:
    """Return one wait for the hosts on which all ranks are behind, and one for each other host."""
    # Once it counts as a stall, that says for whom the others wait.
    if run.stall:
        return []
    late_ranks = find_late_ranks(run)
    if late_ranks:
        return _wait_for_late(late_ranks, run, now)
    halt = find_start_halt(run)
    if halt and halt.find_stopped():
        return _wait_for_stopped(halt, run, now)
    # Of workers, only those that have joined are known to be on their way.
    ranks = [rank for rank in run.ranks if rank.process >= 0 or not run.has_workers]
    phases = {rank.phase for rank in ranks}
    phase = next((phase for phase in START_PHASES if phase in phases), None)
    # Ranks of a script leave some meetings before others: those that are left are not behind.
    is_between = run.plan.job is None and phase is RankPhase.JOINING and len(phases) > 1
    if phase is None or is_between:
        return []
    waits = []
    whole_hosts = []
    ages_of_whole: list[float] = []
    for host in run.hosts:
        host_ranks = [rank for rank in ranks if rank.host == host.index]
        ranks_behind = [rank for rank in host_ranks if rank.phase is phase]
        if not ranks_behind or host.phase is not HostPhase.READY:
            continue
        # A rank that is not started yet waits since its host was ready, or since the attempt
        # before was over.
        rank_ages = [age(rank.since or host.since, run, now) for rank in ranks_behind]
        if len(ranks_behind) == len(host_ranks):
            whole_hosts.append(host)
            ages_of_whole += rank_ages
        else:
            subject = f"{ranks_text([rank.rank for rank in ranks_behind])} on {host.name}"
            waits.append(Wait(subject, _describe_phase(phase, [host], run), max(rank_ages)))
    if whole_hosts:
        # Ranks join each other when the last one has come.
        wait_seconds = min(ages_of_whole) if phase is RankPhase.JOINING else max(ages_of_whole)
        waits.insert(
            0,
            Wait(
                _name_hosts(whole_hosts, run),
                _describe_phase(phase, whole_hosts, run),
                wait_seconds,
            ),
        )
    return waits[:NAMES]


def _wait_for_late(late_ranks: LateRanks, run: RunState, now: float) -> list[Wait]:
    """Return one wait for the late ranks of each host that do the same."""
    ranks_by_activity = defaultdict[tuple[int, str], list[int]](list)
    for number, rank in enumerate(late_ranks.late):
        # There may be 1,000 of them, whose stacks are long.
        activity = late_ranks.describe_activity(rank) if number < MOST_LOCATED else ""
        ranks_by_activity[rank.host, activity].append(rank.rank)
    waiting_text = f"{_say_who_waits(late_ranks.waiting)} in it"
    waits = []
    for (host, activity), ranks in ranks_by_activity.items():
        progress = f"{'has' if len(ranks) == 1 else 'have'} not called {late_ranks.call}"
        if activity:
            progress += f", {activity}" if len(ranks) == 1 else f", each {activity}"
        subject = f"{ranks_text(ranks)} on {run.host_name(host)}"
        wait_seconds = age(late_ranks.since, run, now)
        waits.append(Wait(subject, f"{progress}; {waiting_text}", wait_seconds))
    return waits[:NAMES]


def _wait_for_stopped(halt: StartHalt, run: RunState, now: float) -> list[Wait]:
    """Return one wait for the ranks of each host that a signal has stopped in the same place."""
    ranks_by_place = defaultdict[tuple[int, str], list[int]](list)
    stopped_ranks = halt.find_stopped()
    for rank in stopped_ranks:
        ranks_by_place[rank.host, rank.meeting].append(rank.rank)
    waiting_ranks = [rank for rank in halt.waiting if rank not in stopped_ranks]
    pronoun = "it" if len(stopped_ranks) == 1 else "them"
    waiting_text = f"; {_say_who_waits(waiting_ranks)} for {pronoun}" if waiting_ranks else ""
    waits = []
    for (host, place), ranks in ranks_by_place.items():
        progress = f"{'is' if len(ranks) == 1 else 'are'} stopped, by SIGSTOP or a debugger"
        if place:
            progress += f", in {place}"
        subject = f"{ranks_text(ranks)} on {run.host_name(host)}"
        waits.append(Wait(subject, f"{progress}{waiting_text}", age(halt.since, run, now)))
    return waits[:NAMES]


def _say_who_waits(ranks: Sequence[RankState]) -> str:
    """Return "rank 0 waits" or "ranks 0 and 1 wait"."""
    return f"{ranks_text([rank.rank for rank in ranks])} {'waits' if len(ranks) == 1 else 'wait'}"


def _describe_phase(phase: RankPhase, hosts: Iterable[HostState], run: RunState) -> str:
    job = run.plan.job
    template = phase.wait if job else phase.script_wait
    progress = template.format(
        reached=_describe_reached(hosts, run),
        port=run.rendezvous or "the port where ranks meet",
        dataset=job.dataset if job else "",
        call=next((rank.meeting for rank in run.script_ranks if rank.meeting), ""),
    )
    failed_connections = describe_failed_connections(run.ranks, run.hosts)
    return f"{progress}; {failed_connections}" if failed_connections else progress


def _name_hosts(hosts: Hosts, run: RunState) -> str:
    """Return "node1", "node1 and node2", "node1, node2, node3 and 5 more" or "all 8 hosts"."""
    if len(hosts) == len(run.hosts) > 1:
        return f"all {len(hosts)} hosts"
    host_names = [host.name for host in hosts[:NAMES]]
    others_text = [f"{len(hosts) - NAMES} more"] if len(hosts) > NAMES else []
    *first_names, last_name = host_names + others_text
    return f"{', '.join(first_names)} and {last_name}" if first_names else last_name
