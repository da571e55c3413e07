"""The times of a session, in seconds: one table, passed in."""

from __future__ import annotations

from dataclasses import dataclass

from remote.run.findings.stall import STALL_LIMITS, StallLimits
from training.wire.commands import GRACE


@dataclass(frozen=True)
class Times:
    """What a session waits for, and how long."""

    lease: float = 1.0
    """Between two signs of life to every agent."""
    tick: float = 0.1
    """Between two looks at the clock."""
    evidence: float = 1.0
    """From the first failure until the others are stopped: their last words tell the cause."""
    closing: float = 8.0
    """What an agent has to end its ranks and itself: its own grace, and the way there and back."""
    away: float = 3.0
    """Without a record, after which a person who stops the run waits no longer for a host."""
    moment: float = 0.5
    """What each host has to end at the least, also then."""
    unheard: float = 600.0
    """Without a record of any host, after which a kept run is left to its agents."""
    silent: float = 10.0
    """Without a record, after which a host is silent; a live agent samples its host each second."""
    lost: float = 60.0
    """Without a record, after which a host is lost."""
    parted: float = 10.0
    """In which a broken connection must be replaced, unless the run is kept: the agent has stopped
    its ranks by then."""
    retry: float = 1.0
    """From a connection that could not be made to the next try."""
    settling: float = 10.0
    """From the start of a user's own script without a step until it counts as under way: what is
    wrong with its arguments or its imports shows before."""
    stacks: float = 5.0
    """In which the stacks of the ranks have to come before a stall is acted on."""
    grace: float = GRACE
    """Which ranks have to end after a stop."""
    stall: StallLimits = STALL_LIMITS


TIMES = Times()
