"""The times of an agent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AgentTimes:
    """All times of an agent and its follower, in seconds.

    `tick`: from one sample to the next. `gather`: from one read of the ranks' output to the next.
    `reconnect`: an agent without a follower for this long has no launcher. `lease`: neither has one
    without a command for this long; and for this long a run that is kept waits for a launcher that
    starts its ranks. `input`: a follower without input for this long exits. `grace`: from TERM to
    KILL. `last`: how long to wait for processes that KILL does not end. `restart`: how long a
    failed run that is kept waits for a launcher that restarts it.
    """

    tick: float = 1.0
    gather: float = 0.1
    reconnect: float = 2.0
    lease: float = 60.0
    input: float = 60.0
    grace: float = 2.0
    last: float = 8.0
    restart: float = 86400.0
