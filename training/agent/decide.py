"""What an agent does next. All that changes the course of its ranks is decided here, without a
clock, a process or a socket: the agent says what has happened, and acts out what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from training.agent.times import Times
from training.wire.commands import Close, Command, OnDisconnect, Start, Stop
from training.wire.enums import EndReason
from training.wire.events import AGENT, Ended, Event, Exited, StopHeard, Text

# What happens -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FollowerCame:
    """A follower has connected."""


@dataclass(frozen=True, slots=True)
class FollowerLeft:
    """A follower's connection has ended."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A line of `size` bytes has come from a follower; `command` is None where it is none."""

    command: Command | None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Terminated:
    """Somebody has sent SIGTERM to the agent."""


@dataclass(frozen=True, slots=True)
class GuardGone:
    """The guard lives no more."""


@dataclass(frozen=True, slots=True)
class JournalFull:
    """The disk has no room for the journal: its reserve is in use."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """All that has happened up to now is said. Comes after every turn of the agent's loop."""


Happening = (
    FollowerCame | FollowerLeft | Heard | Exited | Terminated | GuardGone | JournalFull | TimePassed
)
"""`Exited`: the process of a rank is gone, or could not be started."""


# What follows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Write this event to the journal."""

    event: Event


@dataclass(frozen=True, slots=True)
class StartRanks:
    """Start the ranks of the command. What is written from now on is of its attempt."""

    command: Start


@dataclass(frozen=True, slots=True)
class TerminateRanks:
    """Send TERM to every rank."""


@dataclass(frozen=True, slots=True)
class KillRanks:
    """Send KILL to every process below the agent."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Kill what is left, write this with the pids that cannot be killed, and end."""

    end: Ended


Action = Write | StartRanks | TerminateRanks | KillRanks | Finish


# What is known ------------------------------------------------------------------------------------


@dataclass(slots=True)
class State:
    """What an agent knows of its run. Times are by its monotonic clock, `math.inf` is never.

    `keep`: the run goes on without a launcher. `attempt` is the last one that was started, -1
    before the first. `again`: should ranks fail, a launcher may start all once more. `alive` are
    the ranks that have not exited. Since those were started, has a rank `failed` by itself, and is
    the attempt `incomplete`, as one has not exited with 0? `exited_at` is when the last one did.

    `followers` is how many are connected, `alone_since` when one left, and `heard_at` when one
    spoke. `kill_at` is when ranks that are being stopped are killed, `give_up_at` when the agent
    waits no more for killed ones. `end` is the agent's last word once it is ending.
    """

    keep: bool
    alone_since: float
    heard_at: float
    attempt: int = -1
    again: bool = False
    alive: set[int] = field(default_factory=set)
    failed: bool = False
    incomplete: bool = False
    exited_at: float = 0.0
    followers: int = 0
    kill_at: float = math.inf
    give_up_at: float = math.inf
    end: Ended | None = None


def decide(state: State, times: Times, now: float, happened: Happening) -> list[Action]:
    """What follows from what has happened, to be done in this order. Changes `state`."""
    match happened:
        case FollowerCame():
            state.followers, state.heard_at = state.followers + 1, now
        case FollowerLeft():
            state.followers, state.alone_since = state.followers - 1, now
        case Heard(command, size):
            state.heard_at = now
            return _obey(state, times, now, command, size)
        case Exited():
            _note_exit(state, now, happened)
        case Terminated():
            return _end(state, times, now, Ended(EndReason.TERMINATED, died=True))
        case GuardGone():
            return _end(state, times, now, Ended(EndReason.GUARD_DIED, died=True))
        case JournalFull():
            return _end(state, times, now, Ended(EndReason.DISK_FULL, died=True))
        case TimePassed():
            return [
                *_look_for_operator(state, times, now),
                *_kill_in_time(state, times, now),
                *_finish_in_time(state, now),
            ]
    return []


def due(state: State, times: Times, now: float) -> float:
    """When time alone may change something next, other than a lease, which nobody waits for."""
    alone_until = state.alone_since + times.reconnect
    return min(state.kill_at, alone_until if alone_until > now else math.inf)


# Commands


def _obey(
    state: State, times: Times, now: float, command: Command | None, size: int
) -> list[Action]:
    """What follows from a command, as far as it changes the course of the ranks."""
    match command:
        case Start():
            return _start(state, times, now, command)
        case Stop(grace, again, by_person):
            state.again = state.again and again
            return [Write(StopHeard(by_person)), *_stop(state, now, grace)]
        case Close():
            return _end(state, times, now, Ended(EndReason.CLOSED))
        case OnDisconnect(keep):
            state.keep = keep
        case None:  # the line itself may hold a secret
            return [_complaint(f"not a command: a line of {size} bytes")]
    return []


def _start(state: State, times: Times, now: float, command: Start) -> list[Action]:
    if command.attempt <= state.attempt:  # once more, over a new connection
        return []
    if state.end or state.alive:
        why = "the agent is ending" if state.end else "ranks of the one before still run"
        return [_complaint(f"attempt {command.attempt} is not started: {why}")]
    killed = _kill(state, times, now) if state.kill_at < math.inf else []
    state.attempt, state.again = command.attempt, command.again
    if command.placements:
        state.alive = {placement.rank for placement in command.placements}
        state.failed = state.incomplete = False
    return [*killed, StartRanks(command)]


def _complaint(text: str) -> Action:
    return Write(Text(AGENT, "stderr", text))


# Ranks and the end


def _note_exit(state: State, now: float, exited: Exited) -> None:
    state.alive.discard(exited.rank)
    state.exited_at = now
    state.incomplete = state.incomplete or exited.code != 0
    state.failed = state.failed or (exited.code != 0 and not exited.stopped)


def _stop(state: State, now: float, grace: float) -> list[Action]:
    state.kill_at, state.give_up_at = min(state.kill_at, now + grace), math.inf
    return [TerminateRanks()]


def _kill(state: State, times: Times, now: float) -> list[Action]:
    state.kill_at, state.give_up_at = math.inf, now + times.last
    return [KillRanks()]


def _end(state: State, times: Times, now: float, end: Ended) -> list[Action]:
    if state.end:
        return []
    state.end = end
    return _stop(state, now, times.grace)


# Time


def _look_for_operator(state: State, times: Times, now: float) -> list[Action]:
    """End a run that has no launcher, unless it is kept and there is something to wait for."""
    if state.end:
        return []
    alone = not state.followers and now - state.alone_since >= times.reconnect
    if state.keep and not state.alive:
        if alone and not _may_start_again(state, times, now):
            return _end(state, times, now, Ended(EndReason.ALL_ENDED))
    elif state.keep:
        if alone and state.failed and state.kill_at == math.inf:
            return _stop(state, now, times.grace)  # nobody else is there to do it
    elif alone:
        return _end(state, times, now, Ended(EndReason.OPERATOR_GONE))
    elif now - state.heard_at >= times.lease:
        return _end(state, times, now, Ended(EndReason.LEASE_EXPIRED, f"{times.lease:g} s"))
    return []


def _may_start_again(state: State, times: Times, now: float) -> bool:
    """Whether ranks have failed that somebody may still come to start again."""
    since = max(state.alone_since, state.exited_at)
    return state.again and state.incomplete and now - since < times.restart


def _kill_in_time(state: State, times: Times, now: float) -> list[Action]:
    """Kill ranks after their grace; or, once all have exited, what they have left behind."""
    is_due = now >= state.kill_at or (state.kill_at < math.inf and not state.alive)
    return _kill(state, times, now) if is_due else []


def _finish_in_time(state: State, now: float) -> list[Action]:
    """End once all ranks have, or those that were killed do not."""
    if state.end and (not state.alive or now >= state.give_up_at):
        return [Finish(state.end)]
    return []
