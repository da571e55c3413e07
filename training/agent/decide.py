"""What an agent does next: a pure function, without a clock, a process or a socket.

The agent passes each input, with the time, to `decide` and carries out the actions that it returns.
Everything that starts, stops or kills ranks, or ends the agent, is decided here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from training.agent.times import AgentTimes
from training.wire.commands import Close, Command, OnDisconnect, StartAttempt, Stop
from training.wire.enums import EndReason
from training.wire.events import Event
from training.wire.host_events import (
    AGENT,
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Exited,
    OutputText,
    StopHeard,
)

# Inputs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FollowerCame:
    """A follower has connected."""


@dataclass(frozen=True, slots=True)
class FollowerLeft:
    """A follower has disconnected."""


@dataclass(frozen=True, slots=True)
class LineReceived:
    """A follower has sent a line of `size` bytes. `command` is None if it is not a command."""

    command: Command | None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Terminated:
    """The agent has received SIGTERM."""


@dataclass(frozen=True, slots=True)
class GuardGone:
    """The guard is dead."""


@dataclass(frozen=True, slots=True)
class JournalFull:
    """The disk is full: the journal uses its reserve."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A turn of the agent's loop is over: all inputs up to now are known."""


Input = (
    FollowerCame
    | FollowerLeft
    | LineReceived
    | BeforeStarted
    | BeforeEnded
    | Exited
    | Terminated
    | GuardGone
    | JournalFull
    | TimePassed
)
"""`Exited`: the process of a rank has exited, or could not be started."""


# Actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Write this event to the journal."""

    event: Event


@dataclass(frozen=True, slots=True)
class StartRanks:
    """Start the ranks of the command. From now on, records are of its attempt."""

    command: StartAttempt


@dataclass(frozen=True, slots=True)
class TerminateRanks:
    """Send TERM to every rank, and to the command before them."""


@dataclass(frozen=True, slots=True)
class KillRanks:
    """Send KILL to every process below the agent."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Kill all processes below the agent, write `end` with the pids that survive, and exit."""

    end: AgentEnded


Action = Write | StartRanks | TerminateRanks | KillRanks | Finish


# Decisions ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class AgentState:
    """What an agent knows. Times are by its monotonic clock; `math.inf` is never."""

    keep: bool
    """The run continues without a launcher."""
    alone_since: float
    """When the last follower disconnected."""
    heard_at: float
    """When the last line or connection came."""
    attempt: int = -1
    """The last attempt started, -1 before the first."""
    again: bool = False
    """If ranks fail, a launcher may start another attempt."""
    alive: set[int] = field(default_factory=set)
    """The ranks that have not exited."""
    runs_before: bool = False
    """The command runs that comes before the ranks."""
    failed: bool = False
    """A rank of this attempt failed, and was not stopped."""
    incomplete: bool = False
    """A rank of this attempt exited with another code than 0."""
    exited_at: float = 0.0
    """When the last rank exited."""
    followers: int = 0
    """The number of connections."""
    kill_at: float = math.inf
    """When ranks are killed that do not exit after TERM."""
    give_up_at: float = math.inf
    """When the agent stops waiting for killed ranks."""
    end: AgentEnded | None = None
    """The agent's last record, once it is ending."""

    @property
    def is_busy(self) -> bool:
        """Return True while something of the run has not exited."""
        return bool(self.alive) or self.runs_before


def decide(state: AgentState, times: AgentTimes, now: float, incoming: Input) -> list[Action]:
    """Update `state` by an input. Return the actions to carry out, in order."""
    match incoming:
        case FollowerCame():
            state.followers = state.followers + 1
            state.heard_at = now
        case FollowerLeft():
            state.followers = state.followers - 1
            state.alone_since = now
        case LineReceived(command, size):
            state.heard_at = now
            return _obey_command(state, times, now, command, size)
        case BeforeStarted():
            state.runs_before = True
        case BeforeEnded():
            state.runs_before = False
        case Exited():
            _note_exit(state, now, incoming)
        case Terminated():
            return _end_agent(state, times, now, AgentEnded(EndReason.TERMINATED))
        case GuardGone():
            return _end_agent(state, times, now, AgentEnded(EndReason.GUARD_DIED))
        case JournalFull():
            return _end_agent(state, times, now, AgentEnded(EndReason.DISK_FULL))
        case TimePassed():
            return [
                *_look_for_operator(state, times, now),
                *_kill_in_time(state, times, now),
                *_finish_in_time(state, now),
            ]
    return []


def next_deadline(state: AgentState, times: AgentTimes, now: float) -> float:
    """Return the next time at which `TimePassed` may return actions.

    Deadlines that may be noticed a tick late, such as the lease, are left out.
    """
    alone_until = state.alone_since + times.reconnect
    return min(state.kill_at, alone_until if alone_until > now else math.inf)


# Commands


def _obey_command(
    state: AgentState, times: AgentTimes, now: float, command: Command | None, size: int
) -> list[Action]:
    """Follow a command, if it concerns the ranks or the end."""
    match command:
        case StartAttempt():
            return _start_attempt(state, times, now, command)
        case Stop(grace, again, by_person):
            # A stop may take back the leave to start again, but never gives it.
            state.again = state.again and again
            return [Write(StopHeard(by_person)), *_stop_ranks(state, now, grace)]
        case Close():
            return _end_agent(state, times, now, AgentEnded(EndReason.CLOSED))
        case OnDisconnect(keep):
            state.keep = keep
        case None:  # the line itself may contain a secret
            return [_write_complaint(f"not a command: a line of {size} bytes")]
    return []


def _start_attempt(
    state: AgentState, times: AgentTimes, now: float, command: StartAttempt
) -> list[Action]:
    if command.attempt <= state.attempt:  # sent again, over a new connection
        return []
    if state.end or state.alive:
        reason = "the agent is ending" if state.end else "ranks of the one before still run"
        return [_write_complaint(f"attempt {command.attempt} is not started: {reason}")]
    # All ranks have exited, but what they started may still be in its grace: it goes first.
    kill_actions = _kill_ranks(state, times, now) if state.kill_at < math.inf else []
    state.attempt = command.attempt
    state.again = command.again
    if command.placements:
        state.alive = {placement.rank for placement in command.placements}
        state.failed = state.incomplete = False
    return [*kill_actions, StartRanks(command)]


def _write_complaint(text: str) -> Action:
    return Write(OutputText(AGENT, "stderr", text))


# Ranks and the end


def _note_exit(state: AgentState, now: float, exited: Exited) -> None:
    state.alive.discard(exited.rank)
    state.exited_at = now
    state.incomplete = state.incomplete or exited.code != 0
    state.failed = state.failed or (exited.code != 0 and not exited.stopped)


def _stop_ranks(state: AgentState, now: float, grace: float) -> list[Action]:
    # A second stop never prolongs the grace of the first one.
    state.kill_at = min(state.kill_at, now + grace)
    state.give_up_at = math.inf  # it counts from the kill
    return [TerminateRanks()]


def _kill_ranks(state: AgentState, times: AgentTimes, now: float) -> list[Action]:
    state.kill_at = math.inf
    state.give_up_at = now + times.last
    return [KillRanks()]


def _end_agent(state: AgentState, times: AgentTimes, now: float, end: AgentEnded) -> list[Action]:
    if state.end:
        return []
    # The first reason counts: what comes later follows from it.
    state.end = end
    return _stop_ranks(state, now, times.grace)


# Time


def _look_for_operator(state: AgentState, times: AgentTimes, now: float) -> list[Action]:
    """Stop a run that has no launcher, unless it is kept and there is something to wait for."""
    if state.end:
        return []
    seconds_alone = 0.0 if state.followers else now - state.alone_since
    is_alone = seconds_alone >= times.reconnect
    if state.keep and state.attempt < 0:  # only a launcher can start the ranks
        if seconds_alone >= times.lease:
            return _end_agent(
                state, times, now, AgentEnded(EndReason.NO_LAUNCHER, f"{times.lease:g} s")
            )
    elif state.keep and not state.alive:
        if is_alone and not _may_start_again(state, times, now):
            return _end_agent(state, times, now, AgentEnded(EndReason.ALL_ENDED))
    elif state.keep:
        if is_alone and state.failed and state.kill_at == math.inf:
            return _stop_ranks(state, now, times.grace)  # no launcher is there to do it
    elif is_alone:
        return _end_agent(state, times, now, AgentEnded(EndReason.OPERATOR_GONE))
    elif now - state.heard_at >= times.lease:
        return _end_agent(
            state, times, now, AgentEnded(EndReason.LEASE_EXPIRED, f"{times.lease:g} s")
        )
    return []


def _may_start_again(state: AgentState, times: AgentTimes, now: float) -> bool:
    """Return True if a launcher may still start another attempt after ranks failed."""
    idle_since = max(state.alone_since, state.exited_at)
    return state.again and state.incomplete and now - idle_since < times.restart


def _kill_in_time(state: AgentState, times: AgentTimes, now: float) -> list[Action]:
    """Kill the ranks after their grace; or, once all have exited, the processes they left."""
    is_due = now >= state.kill_at or (state.kill_at < math.inf and not state.is_busy)
    return _kill_ranks(state, times, now) if is_due else []


def _finish_in_time(state: AgentState, now: float) -> list[Action]:
    """Finish once all ranks have exited, or killed ones do not exit in time."""
    if state.end and (not state.is_busy or now >= state.give_up_at):
        return [Finish(state.end)]
    return []
