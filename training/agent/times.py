"""The times of an agent."""

from __future__ import annotations

from dataclasses import dataclass

from training.wire.commands import GRACE


@dataclass(frozen=True)
class AgentTimes:
    """All times of an agent and its follower, in seconds."""

    tick: float = 1.0
    """From one sample to the next."""
    gather: float = 0.1
    """From one read of the ranks' output to the next."""
    reconnect: float = 2.0
    """An agent without a follower for this long has no launcher."""
    lease: float = 60.0
    """An agent without a command for this long has no launcher; and for this long a run that is
    kept waits for a launcher that starts its ranks."""
    input: float = 60.0
    """A follower without input for this long exits."""
    grace: float = GRACE
    """From TERM to KILL."""
    last: float = 8.0
    """How long to wait for processes that KILL does not end."""
    restart: float = 86400.0
    """How long a failed run that is kept waits for a launcher that restarts it."""
