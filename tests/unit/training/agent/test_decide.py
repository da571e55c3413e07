"""What an agent decides: history in, actions out, without a clock or a process."""

from __future__ import annotations

import ast
import math
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import getsource
from typing import Any

import pytest

from training.agent import decide as module
from training.agent.decide import (
    Action,
    AgentState,
    Finish,
    FollowerCame,
    FollowerLeft,
    GuardGone,
    Input,
    JournalFull,
    KillRanks,
    LineReceived,
    StartRanks,
    Terminated,
    TerminateRanks,
    TimePassed,
    Write,
    decide,
    next_deadline,
)
from training.agent.times import AgentTimes
from training.wire.commands import (
    Close,
    Lease,
    OnDisconnect,
    Placement,
    Reserve,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason
from training.wire.host_events import (
    AGENT,
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Exited,
    OutputText,
    StopHeard,
)

TIMES = AgentTimes(reconnect=2.0, lease=60.0, grace=2.0, last=8.0, restart=1000.0)
TERM, KILL = TerminateRanks(), KillRanks()


def start(attempt: int = 0, ranks: int = 2, again: bool = False) -> StartAttempt:
    """The command that starts so many ranks."""
    placements = tuple(Placement(rank, rank, ("x",), ()) for rank in range(ranks))
    return StartAttempt(attempt, True, placements, again=again)


def exited(rank: int, code: int = 0, stopped: bool = False) -> Exited:
    """A rank has exited by itself, or as it was stopped."""
    return Exited(rank, code, stopped=stopped)


def complaint(text: str) -> Write:
    """The agent writes this on its stderr."""
    return Write(OutputText(AGENT, "stderr", text))


def finish(reason: EndReason, detail: str = "") -> Finish:
    """The agent ends."""
    return Finish(AgentEnded(reason, detail))


@dataclass
class History:
    """An agent with one follower. After each given comes its turn of the clock."""

    keep: bool = False
    now: float = 1000.0
    state: AgentState = field(init=False)

    def __post_init__(self) -> None:
        self.state = AgentState(self.keep, alone_since=self.now, heard_at=self.now)
        assert self.then(FollowerCame()) == []

    def then(self, given: Any, after: float = 0.0) -> list[Action]:
        """What follows. A command is heard, and None is that time passes alone."""
        self.now += after
        if not isinstance(given, Input | None):
            given = LineReceived(given)
        told = [] if given in (None, TimePassed()) else [given]
        return [
            action
            for one in (*told, TimePassed())
            for action in decide(self.state, TIMES, self.now, one)
        ]

    def running(self, ranks: int = 2, again: bool = False) -> History:
        """The ranks have been started."""
        command = start(ranks=ranks, again=again)
        assert self.then(command) == [StartRanks(command)]
        return self

    def left(self) -> History:
        """Nobody is connected, for too long."""
        self.then(FollowerLeft())
        return self


CLOSED = finish(EndReason.CLOSED)
SIGTERM = AgentEnded(EndReason.TERMINATED)
CASES: dict[str, tuple[History, list[tuple[Any, float, list[Action]]]]] = {
    "an agent without ranks closes at once": (History(), [(Close(), 0.0, [TERM, KILL, CLOSED])]),
    "it ends once its ranks have": (
        History().running(),
        [
            (Close(), 0.0, [TERM]),
            (exited(0, -15, True), 0.5, []),
            (exited(1, -15, True), 0.5, [KILL, CLOSED]),
        ],
    ),
    "the command before the ranks has its grace, too": (
        History(),
        [
            (BeforeStarted(), 0.0, []),
            (Close(), 5.0, [TERM]),
            (None, 1.0, []),
            (BeforeEnded(-15, 6.0, stopped=True), 0.1, [KILL, CLOSED]),
        ],
    ),
    "and is killed after it": (
        History(),
        [
            (BeforeStarted(), 0.0, []),
            (Stop(1.0), 5.0, [Write(StopHeard()), TERM]),
            (None, 1.0, [KILL]),
            (BeforeEnded(-9, 6.0, stopped=True), 0.1, []),
            (Close(), 0.0, [TERM, KILL, CLOSED]),
        ],
    ),
    "ranks are killed after their grace, and given up in the end": (
        History().running(),
        [
            (Close(), 0.0, [TERM]),
            (None, 1.9, []),
            (None, 0.1, [KILL]),
            (None, 7.9, []),
            (None, 0.1, [CLOSED]),
        ],
    ),
    "the first reason to end counts": (
        History().running(),
        [
            (JournalFull(), 0.0, [TERM]),
            (JournalFull(), 0.1, []),
            (Close(), 0.1, []),
            (GuardGone(), 0.1, []),
            (Terminated(), 0.1, []),
            (exited(0, -15, True), 0.1, []),
            (exited(1, -15, True), 0.1, [KILL, finish(EndReason.DISK_FULL)]),
        ],
    ),
    "the guard is gone": (
        History(),
        [(GuardGone(), 0.0, [TERM, KILL, finish(EndReason.GUARD_DIED)])],
    ),
    "somebody sends SIGTERM": (History(), [(Terminated(), 0.0, [TERM, KILL, Finish(SIGTERM)])]),
    "the agent lives on after a stop": (
        History().running(),
        [
            (Stop(5.0), 0.0, [Write(StopHeard()), TERM]),
            (exited(0, -15, True), 1.0, []),
            (exited(1, -15, True), 1.0, [KILL]),
            (None, 0.5, []),
        ],
    ),
    "a person's stop is passed on": (
        History().running(),
        [(Stop(by_person=True), 0.0, [Write(StopHeard(True)), TERM])],
    ),
    "a stop after a stop only shortens the grace": (
        History().running(),
        [
            (Stop(5.0), 0.0, [Write(StopHeard()), TERM]),
            (Stop(1.0), 1.0, [Write(StopHeard()), TERM]),
            (Stop(9.0), 0.5, [Write(StopHeard()), TERM]),
            (None, 0.4, []),
            (None, 0.1, [KILL]),
        ],
    ),
    "a stop of what has no ranks sweeps what they left": (
        History(),
        [(Stop(5.0), 0.0, [Write(StopHeard()), TERM, KILL])],
    ),
    "a start that has come before is ignored": (
        History().running(),
        [(start(), 0.0, []), (exited(0), 0.0, []), (exited(1), 0.0, []), (start(), 0.0, [])],
    ),
    "no attempt starts while ranks run": (
        History().running(),
        [
            (
                start(1),
                0.0,
                [complaint("attempt 1 is not started: ranks of the one before still run")],
            ),
            (exited(0), 0.0, []),
            (exited(1), 0.0, []),
            (start(1), 0.0, [StartRanks(start(1))]),
        ],
    ),
    "no attempt starts at an agent that is ending": (
        History().running(),
        [
            (Close(), 0.0, [TERM]),
            (start(1), 0.0, [complaint("attempt 1 is not started: the agent is ending")]),
        ],
    ),
    "what is no command is said, but not what it is": (
        History(),
        [(LineReceived(None, 7), 0.0, [complaint("not a command: a line of 7 bytes")])],
    ),
    "other commands change nothing": (
        History().running(),
        [(Lease(), 0.0, []), (Reserve("127.0.0.1", 0), 0.0, [])],
    ),
    "a run that is not kept ends without its launcher": (
        History().running(),
        [
            (FollowerLeft(), 0.0, []),
            (None, 1.9, []),
            (None, 0.1, [TERM]),
            (None, 2.0, [KILL]),
            (exited(0, -9, True), 0.0, []),
            (exited(1, -9, True), 0.0, [finish(EndReason.OPERATOR_GONE)]),
        ],
    ),
    "it goes on if its launcher is back in time": (
        History().running(),
        [(FollowerLeft(), 0.0, []), (FollowerCame(), 1.9, []), (None, 50.0, [])],
    ),
    "one follower of two is enough": (
        History().running(),
        [(FollowerCame(), 0.0, []), (FollowerLeft(), 0.0, []), (None, 50.0, [])],
    ),
    "a launcher that says nothing is gone": (
        History(),
        [
            (Lease(), 59.0, []),
            (None, 59.0, []),
            (None, 1.0, [TERM, KILL, finish(EndReason.LEASE_EXPIRED, "60 s")]),
        ],
    ),
    "who connects gives a sign of life": (
        History(),
        [(FollowerLeft(), 59.0, []), (FollowerCame(), 1.5, []), (None, 1.0, [])],
    ),
    "a run that is kept needs no signs of life": (
        History(keep=True).running(),
        [(None, 1e6, []), (FollowerLeft(), 0.0, []), (None, 1e6, [])],
    ),
    "before its ranks are started, a run that is kept waits for its launcher, too": (
        History(keep=True).left(),
        [
            (None, 59.0, []),
            (None, 1.0, [TERM, KILL, finish(EndReason.NO_LAUNCHER, "60 s")]),
        ],
    ),
    "and starts them once it is back": (
        History(keep=True).left(),
        [
            (FollowerCame(), 59.0, []),
            (None, 1e6, []),
            (start(), 0.0, [StartRanks(start())]),
        ],
    ),
    "a run that is kept ends with its ranks": (
        History(keep=True).running().left(),
        [
            (exited(0), 60.0, []),
            (exited(1), 1.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "it waits for who is connected": (
        History(keep=True).running(),
        [
            (exited(0), 60.0, []),
            (exited(1), 1.0, []),
            (FollowerLeft(), 100.0, []),
            (None, 2.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "its agent stops the others of a rank that fails, with nobody there": (
        History(keep=True).running().left(),
        [
            (exited(0, 1), 60.0, [TERM]),
            (None, 1.0, []),
            (None, 1.0, [KILL]),
            (exited(1, -9, True), 0.1, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "but not while somebody is": (
        History(keep=True).running(),
        [(exited(0, 1), 60.0, []), (FollowerLeft(), 5.0, []), (None, 2.0, [TERM])],
    ),
    "nor of one that was stopped": (
        History(keep=True).running().left(),
        [(exited(0, -15, True), 60.0, [])],
    ),
    "a failed run that is kept waits for who starts it again": (
        History(keep=True).running(again=True).left(),
        [
            (exited(0, 1), 60.0, [TERM]),
            (exited(1, -15, True), 1.0, [KILL]),
            (None, 999.0, []),
            (None, 1.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "it waits from when it was last left": (
        History(keep=True).running(again=True).left(),
        [
            (exited(0, 1), 60.0, [TERM]),
            (exited(1, -15, True), 1.0, [KILL]),
            (FollowerCame(), 900.0, []),
            (FollowerLeft(), 900.0, []),
            (None, 999.0, []),
            (None, 1.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "it does not wait once all have finished": (
        History(keep=True).running(again=True).left(),
        [
            (exited(0), 60.0, []),
            (exited(1), 1.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "it does not wait once a stop has said so": (
        History(keep=True).running(again=True),
        [
            (Stop(again=False), 0.0, [Write(StopHeard()), TERM]),
            (exited(0, -15, True), 1.0, []),
            (exited(1, -15, True), 1.0, [KILL]),
            (FollowerLeft(), 5.0, []),
            (None, 2.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "a stop does not say so where a start has not": (
        History(keep=True).running(),
        [
            (Stop(again=True), 0.0, [Write(StopHeard()), TERM]),
            (exited(0, -15, True), 1.0, []),
            (exited(1, -15, True), 1.0, [KILL]),
            (FollowerLeft(), 5.0, []),
            (None, 2.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "a stop between two attempts leaves that open": (
        History(keep=True).running(again=True),
        [
            (Stop(again=True), 0.0, [Write(StopHeard()), TERM]),
            (exited(0, -15, True), 1.0, []),
            (exited(1, -15, True), 1.0, [KILL]),
            (FollowerLeft(), 5.0, []),
            (None, 999.0, []),
            (FollowerCame(), 0.0, []),
            (start(1), 0.0, [StartRanks(start(1))]),
        ],
    ),
    "a failure of the attempt before is forgotten": (
        History(keep=True).running(again=True),
        [
            (exited(0, 1), 1.0, []),
            (exited(1, 1), 1.0, []),
            (start(1), 1.0, [StartRanks(start(1))]),
            (FollowerLeft(), 0.0, []),
            (None, 60.0, []),
        ],
    ),
    "an attempt that finishes after one that failed is waited for by nobody": (
        History(keep=True).running(ranks=1, again=True),
        [
            (exited(0, 1), 1.0, []),
            (start(1, 1, again=True), 1.0, [StartRanks(start(1, 1, again=True))]),
            (exited(0), 1.0, []),
            (FollowerLeft(), 0.0, []),
            (None, 2.0, [TERM, KILL, finish(EndReason.ALL_ENDED)]),
        ],
    ),
    "a host without ranks waits with those of the attempt before": (
        History(keep=True).running(ranks=1, again=True),
        [
            (exited(0, 1), 1.0, []),
            (start(1, 0, again=True), 1.0, [StartRanks(start(1, 0, again=True))]),
            (FollowerLeft(), 0.0, []),
            (None, 500.0, []),
        ],
    ),
    "a rank that could not be started has failed, though others were": (
        History(keep=True).running().left(),
        [(exited(0, 127), 5.0, [TERM])],
    ),
    "a run may be kept from now on": (
        History().running(),
        [(OnDisconnect(True), 0.0, []), (FollowerLeft(), 0.0, []), (None, 1e6, [])],
    ),
    "or no longer": (
        History(keep=True).running(),
        [(OnDisconnect(False), 0.0, []), (FollowerLeft(), 0.0, []), (None, 2.0, [TERM])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_follows(name: str) -> None:
    history, steps = deepcopy(CASES[name])
    for given, after, actions in steps:
        assert history.then(given, after) == actions, (given, after)


def test_a_start_kills_first_what_a_stop_has_left() -> None:
    """Both come in one turn, before the clock is looked at."""
    history = History()
    assert decide(history.state, TIMES, 1000.0, LineReceived(Stop())) == [Write(StopHeard()), TERM]
    given = LineReceived(start())
    assert decide(history.state, TIMES, 1000.0, given) == [KILL, StartRanks(start())]
    assert history.then(None, after=1.0) == []


def test_a_start_that_comes_with_the_end_is_too_late() -> None:
    """Both come in one turn, before the clock is looked at."""
    history = History()
    assert decide(history.state, TIMES, 1000.0, LineReceived(Close())) == [TERM]
    assert decide(history.state, TIMES, 1000.0, LineReceived(start())) == [
        complaint("attempt 0 is not started: the agent is ending")
    ]


def test_a_start_without_ranks_here_ends_nothing() -> None:
    history = History(keep=True)
    assert history.then(start(ranks=0)) == [StartRanks(start(ranks=0))]
    assert history.then(None, after=1e6) == []


def test_the_clock_is_looked_at_when_it_matters() -> None:
    history = History().running()
    assert next_deadline(history.state, TIMES, history.now + 5) == math.inf
    history.then(FollowerLeft(), after=5.0)
    assert next_deadline(history.state, TIMES, history.now) == history.now + TIMES.reconnect
    history.then(Stop(1.0))
    assert next_deadline(history.state, TIMES, history.now) == history.now + 1.0


def test_it_needs_no_clock_and_no_process() -> None:
    """A simulator drives it in memory."""
    imported = {
        name
        for node in ast.walk(ast.parse(getsource(module)))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"os", "signal", "socket", "selectors", "time", "threading"}
