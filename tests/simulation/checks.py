"""What must hold of every simulation."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from remote.events import HostLost, decode, expand
from remote.run.apply import apply_record
from remote.run.diagnosis.agent_end import STOPPING_ENDS
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from tests.simulation.here import here
from tests.simulation.verdicts import check_verdict
from training.agent.journal import JournalReader
from training.wire import commands
from training.wire.enums import EndReason
from training.wire.events import SESSION, Record
from training.wire.host_events import AgentEnded, RecordsDropped

if TYPE_CHECKING:
    from remote.plan.plan import Plan
    from tests.simulation.host import Host
    from tests.simulation.launcher import Launcher, Machine
    from tests.simulation.process import Process
    from tests.simulation.world import World

AT_ONCE = 6.5
"""Seconds that a launcher has to end once a person has stopped the run twice."""
SLACK = 1.5
"""Seconds beyond a bound, for signals and samples."""

AWAY = frozenset({"link", "reset", "slow", "launcher", "suspended", "silent"})
"""What keeps a launcher from its agents."""
KEEPS_FROM_ENDING = AWAY - {"reset", "launcher"} | {"host", "both", "disk", "journal"}
"""What keeps a host from ending its ranks in time, or from saying so."""
ENDS_WITHOUT_JOURNAL = frozenset({"journal", "detached"})
"""What nobody needs to stop a run for."""
ENDS = {
    # A stop before the ranks are started leaves hosts to this that have not answered by then.
    EndReason.NO_LAUNCHER: AWAY | {"stop"},
    EndReason.OPERATOR_GONE: AWAY | {"stop", "detached"},
    EndReason.LEASE_EXPIRED: AWAY,
    EndReason.TERMINATED: {"guard"},
    EndReason.GUARD_DIED: {"guard"},
    EndReason.DISK_FULL: {"disk"},
    EndReason.AGENT_DIED: {"agent", "disk"},
    EndReason.ABANDONED: {"both", "host", "disk", "guard", "journal"},
}
"""Why an agent ended, and what leads to that."""


class Violation(AssertionError):
    """Something that must never be."""


class Checks:
    """Watches one simulation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._decoded: dict[bytes, Record | None] = {}
        self._journals: dict[int, dict[int, bytes]] = {}

    def decode(self, line: bytes) -> Record | None:
        """The record of a line."""
        if line not in self._decoded:
            self._decoded[line] = decode(line)
        return self._decoded[line]

    def fail(self, what: str) -> None:
        """Raises: Violation."""
        raise Violation(what)

    # While it goes on -----------------------------------------------------------------------------

    def watch_start(self, host: Host, command: commands.StartAttempt) -> None:
        """Each attempt begins once on each host, after all ranks of the one before have ended."""
        attempt = command.attempt
        if host.starts.count(attempt) > 1:
            self.fail(f"{host.name} starts attempt {attempt} twice")
        if attempt > self.world.plan.policy.max_restarts:
            self.fail(f"{host.name} starts attempt {attempt}, more than the policy allows")
        for index in command.hosts:
            for process in self.world.hosts[index].living():
                if process.attempt < attempt:
                    self.fail(f"{host.name} starts attempt {attempt}, but {process.name} lives")

    def watch_spawn(self, process: Process) -> None:
        """A rank is on one host at a time."""
        twins = [
            one
            for host in self.world.hosts
            for one in host.living()
            if one is not process and one.rank == process.rank and one.attempt == process.attempt
        ]
        if twins:
            self.fail(f"{process.name} of attempt {process.attempt} lives twice")

    def watch_stop(self, host: Host, command: commands.Stop, meant: int) -> None:
        """A stop reaches the attempt that it was meant for, and ends it in time."""
        agent = host.agent
        if not agent:
            return
        host.tell(f"gets {command}, meant for attempt {meant}")
        living = host.living()
        if living and agent.attempt > meant and not command.by_person:
            self.fail(f"a stop of attempt {meant} reaches attempt {agent.attempt} on {host.name}")
        host.graces[agent.attempt] = min(command.grace, host.graces.get(agent.attempt, 1e9))
        bound = command.grace + host.times.last + SLACK

        def look() -> None:
            is_same = host.agent is agent and host.stops_counted == count
            if is_same and any(one.alive for one in living) and not host.stopped:
                self.fail(f"{host.name}: ranks outlive a stop by {bound:g} s")

        count = host.stops_counted
        self.world.loop.after(bound, look)

    def watch_term(self, process: Process) -> None:
        """A rank is told to end."""
        process.terminated_at = process.terminated_at or self.world.loop.now

    def watch_kill(self, process: Process) -> None:
        """A rank gets its grace before its agent kills it."""
        if process.rank < 0 or (process.parent and not process.parent.alive):
            return
        host, now = process.host, self.world.loop.now
        grace = min(host.graces.get(process.attempt, 1e9), host.times.grace)
        if not process.terminated_at:
            self.fail(f"{process.name} is killed without a word")
        if now < process.terminated_at + grace - 0.01:
            self.fail(f"{process.name} is killed {now - process.terminated_at:.2f} s after TERM")

    def watch_exit(self, process: Process) -> None:
        """A rank has ended."""

    def watch_alone(self, host: Host) -> None:
        """Nobody is connected any more: a run that is not kept ends."""
        agent, since, count = host.agent, host.alone_since, host.stops_counted
        bound = host.times.reconnect + host.times.grace + host.times.last + SLACK

        def look() -> None:
            is_same = host.agent is agent and agent and host.alone_since == since
            is_awake = not host.stopped and host.stops_counted == count
            is_free = is_awake and host.continued_at < since
            if is_same and is_free and not agent.keeps and host.living():  # type: ignore[union-attr]
                self.fail(f"{host.name}: ranks outlive their launcher by {bound:g} s")

        if agent:
            self.world.loop.after(bound, look)

    def look(self) -> None:
        """Look at the leases, now and then."""
        now = self.world.loop.now
        for host in self.world.hosts:
            times, agent = host.times, host.agent
            bound = times.lease + times.grace + times.last + 2 * times.tick + SLACK
            is_free = agent and not agent.keeps and not host.stopped
            if is_free and now > max(host.fed_at, host.continued_at) + bound and host.living():
                self.fail(f"{host.name}: ranks outlive their lease")

    def watch_record(self, launcher: Launcher, record: Record) -> None:
        """A launcher has taken in a record, expanded."""
        if record.host != SESSION:
            return
        if self.world.tells:
            launcher.tell(f"{record.event}")
        if isinstance(record.event, HostLost) and "did not end" in record.event.reason:
            kinds = {one.kind for one in self.world.blames if one.host in (record.event.host, -1)}
            if not kinds & KEEPS_FROM_ENDING:
                self.fail(f"{launcher.name}: {record.event.reason}, but could")

    def watch_person(self, launcher: Launcher, *, waits: bool) -> None:
        """A person has stopped the run, perhaps again: the launcher ends in time. `waits`: it
        still waits for its hosts."""
        times, pauses = self.world.times, launcher.pauses
        bound = times.closing * 2 + SLACK * 2 if waits else AT_ONCE

        def look() -> None:
            if launcher.is_live and launcher.pauses == pauses and not launcher.is_suspended:
                self.fail(f"{launcher.name} outlives a stop by {bound:g} s")

        self.world.loop.after(bound, look)

    def watch_end(self, launcher: Launcher) -> None:
        """A launcher has ended by itself."""

    # In the end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """All is over. Raises: Violation."""
        world = self.world
        for launcher in world.launchers:
            if launcher.is_live and not launcher.is_suspended:
                self.fail(f"{launcher.name} has not ended")
        for host in world.hosts:
            if host.stopped or host.was_orphaned:
                continue
            if host.living():
                self.fail(f"{host.name}: {host.living()[0].name} is left")
            if host.agent:
                self.fail(f"{host.name}: the agent has not ended")
        kinds = {blame.kind for blame in world.blames}
        if world.was_stopped_at_last and "journal" in kinds and kinds <= ENDS_WITHOUT_JOURNAL:
            self.fail("a run one of whose journals is gone did not end by itself")
        for host in world.hosts:
            for line in self.journal(host).values():
                record = self.decode(line)
                if record and isinstance(record.event, AgentEnded):
                    self._check_end(host, record.event)
        for machine in world.machines:
            self._check_records(machine)
        for launcher in world.launchers:
            if launcher.is_over:
                self._check_replay(launcher)
                self._check_view(launcher)
                check_verdict(world, launcher, self.fail)
        self._check_elapsed()

    def _check_elapsed(self) -> None:
        """All who have seen the same agents end say that the run took as long."""
        told: dict[tuple[int, ...], float] = {}
        for launcher in self.world.launchers:
            state = launcher.session.state
            seen = tuple(host.index for host in state.hosts if host.age_at_end)
            lacks_records = any(host.lacks_records for host in self.world.hosts)
            has_slept = any(machine.slept for machine in self.world.machines)  # its clock, too
            if not state.ended or not seen or lacks_records or has_slept:
                continue
            if not launcher.is_last_there:
                continue
            known = told.setdefault(seen, state.elapsed)
            if abs(known - state.elapsed) > 0.01:
                self.fail(f"{launcher.name}: the run took {state.elapsed:.2f} s, or {known:.2f} s")

    def _check_end(self, host: Host, end: AgentEnded) -> None:
        """Why an agent ended follows from what was injected."""
        kinds = {blame.kind for blame in self.world.blames}
        if end.reason in ENDS and not kinds & ENDS[end.reason]:
            self.fail(f"{host.name} ended by {end.reason} after {sorted(kinds) or 'nothing'}")
        if end.reason is EndReason.ALL_ENDED and not host.starts:
            self.fail(f"{host.name} ended by {end.reason}, but has started no ranks")
        if end.reason is EndReason.NO_LAUNCHER and host.starts:
            self.fail(f"{host.name} ended by {end.reason}, but has started ranks")
        if end.reason in STOPPING_ENDS and self.world.plan.policy.keep:
            self.fail(f"{host.name} ended by {end.reason}, but is kept")
        was_left = any(one.session.detached for one in self.world.launchers)
        if end.reason in STOPPING_ENDS and was_left and not kinds & AWAY:
            self.fail(f"{host.name} ended by {end.reason}, but was left to its agents")

    def _check_records(self, machine: Machine) -> None:
        """Each record of a host was taken once, in order, as the host has it."""
        known = dict.fromkeys(range(len(self.world.hosts)), 0)
        text_gone = dict.fromkeys(known, 0)
        own = 0
        journals = [self.journal(host) for host in self.world.hosts]
        machine.cut_unfinished()  # if nobody has come back after a power cut
        for line in machine.restore():
            record = self.decode(line)
            if record is None:
                self.fail(f"{machine.name} records what is no record: {line!r}")
            elif record.host == SESSION:
                if record.seq != own + 1:
                    self.fail(f"{machine.name} says {record.seq} after {own}")
                own = record.seq
            else:
                self._check_record(machine, record, line, known, text_gone)
                self._check_line(machine, record, line, journals[record.host])

    def _check_record(
        self,
        machine: Machine,
        record: Record,
        line: bytes,
        known: dict[int, int],
        text_gone: dict[int, int],
    ) -> None:
        """Each record follows the one before, but for text of which it is told that it is gone.
        `known` and `text_gone`: of each host the last record, and the last one that may be
        missing."""
        before, known[record.host] = known[record.host], record.seq
        name = self.world.hosts[record.host].name
        match record.event:
            case RecordsDropped(first, last, text_only=True):
                if first != record.seq or not first <= last:
                    self.fail(f"{machine.name}: {record.event} of {name} is record {record.seq}")
                text_gone[record.host] = last
            case RecordsDropped(first, last):
                if first != before + 1 or last != record.seq:
                    self.fail(f"{machine.name}: {record.event} of {name} after {before}")
                return
        follows = record.seq == before + 1 or before < record.seq - 1 <= text_gone[record.host]
        if not follows:
            self.fail(f"{machine.name} takes record {record.seq} of {name} after {before}")

    def _check_line(
        self, machine: Machine, record: Record, line: bytes, journal: dict[int, bytes]
    ) -> None:
        """A record is as its host has it."""
        name = self.world.hosts[record.host].name
        is_kept = record.seq in journal and not self.world.hosts[record.host].lacks_records
        if is_kept and journal[record.seq].strip() != line.strip():
            self.fail(f"{machine.name}: record {record.seq} of {name} is not as it was written")

    def journal(self, host: Host) -> dict[int, bytes]:
        """The lines of a host's journal by number, as far as they are kept, once all is over."""
        if host.index not in self._journals:
            self._journals[host.index] = self.read_journal(host)
        return self._journals[host.index]

    def read_journal(self, host: Host) -> dict[int, bytes]:
        """The lines of a host's journal by number, as they are now."""
        here.host = host
        found = {}
        for block in JournalReader(".", host.index, 0).blocks():
            for line in block.splitlines(keepends=True):
                record = self.decode(line)
                if record and not isinstance(record.event, RecordsDropped):
                    found[record.seq] = line
        return found

    def _check_replay(self, launcher: Launcher) -> None:
        """The records alone come to the same state."""
        if launcher.machine.lines and launcher.is_last_there:
            lines = map(self.decode, launcher.machine.restore())
            records = (one for record in lines if record for one in expand(record))
            replayed = replay(launcher.session.plan, records)
            for name, live, again in differences(launcher.session.state, replayed):
                self.fail(f"{launcher.name}: replayed, {name} is {again}, but was {live}")

    def _check_view(self, launcher: Launcher) -> None:
        """Whoever has seen the run to its end knows all that its hosts have to say."""
        state = launcher.session.state
        if state.verdict is None or not launcher.is_last_there:
            return
        for host, truth in zip(state.hosts, self.world.hosts, strict=True):
            if host.lost or host.left_out or not host.ended or truth.lacks_records:
                continue
            last = max(self.journal(truth), default=0)
            if host.seq != last:
                self.fail(f"{launcher.name} knows {host.seq} of {last} records of {host.name}")
        for rank in state.ranks:
            host = self.world.hosts[rank.host]
            last = [one for one in host.processes.values() if one.rank == rank.rank]
            end = state.hosts[rank.host].ended
            if not (end and last and last[-1].attempt == state.attempt):
                continue
            code = _code(last[-1].status)
            if rank.exited and rank.exited.code != code:
                self.fail(f"rank {rank.rank} ended with {code}, known is {rank.exited.code}")
            if not (rank.exited or end.died or host.lacks_ends):
                self.fail(f"{launcher.name} does not know that rank {rank.rank} ended with {code}")
        if state.verdict is Verdict.FINISHED:
            self._check_finished(launcher)

    def _check_finished(self, launcher: Launcher) -> None:
        state = launcher.session.state
        for rank in state.ranks:
            made = self.world.hosts[rank.host].processes.values()
            if not any(one.rank == rank.rank and one.status == 0 for one in made):
                self.fail(f"{launcher.name}: finished, but rank {rank.rank} did not")


def _code(status: int) -> int:
    return status >> 8 if status > 127 or status == 0 else -status


def replay(plan: Plan, records: Iterable[Record]) -> RunState:
    """The state that records come to."""
    state = RunState(plan)
    for record in records:
        apply_record(state, record)
    return state


_PLAIN = (int, float, str, Enum)
_LEFT_OUT = ("plan", "policy", "_limits", "limits", "_medians", "_means", "_loss", "_spent")
"""Fields that are no part of a state: settings, and what is computed from the others."""


def differences(live: object, again: object, name: str = "the state") -> list[tuple[str, Any, Any]]:
    """Where two states differ: what, and how it is in either."""
    if isinstance(live, _PLAIN) or type(live) is not type(again):
        return [] if live == again or live != live else [(name, live, again)]
    if isinstance(live, dict):
        if list(live) != list(again):  # type: ignore[call-overload]
            return [(name, list(live), list(again))]  # type: ignore[call-overload]
        return [d for key in live for d in differences(live[key], again[key], f"{name}[{key}]")]  # type: ignore[index]
    if isinstance(live, list | tuple) or type(live).__name__ == "deque":
        has_arrays = any(isinstance(one, np.ndarray) for one in live)  # type: ignore[attr-defined]
        if not has_arrays and live == again:
            return []
        if len(live) != len(again):  # type: ignore[arg-type]
            return [(name, live, again)]
        pairs = enumerate(zip(live, again, strict=True))  # type: ignore[call-overload]
        return [d for i, (one, two) in pairs for d in differences(one, two, f"{name}[{i}]")]
    if isinstance(live, np.ndarray):
        return [] if np.array_equal(live, again, equal_nan=True) else [(name, live, again)]  # type: ignore[arg-type]
    names = getattr(live, "__dict__", None) or getattr(live, "__slots__", ())
    if names and type(live).__module__.startswith("remote.run"):
        return [
            d
            for key in names
            if key not in _LEFT_OUT
            for d in differences(getattr(live, key), getattr(again, key), f"{name}.{key}")
        ]
    return [] if live == again or repr(live) == repr(again) else [(name, live, again)]
