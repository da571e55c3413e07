"""What a session knows of its connections to a host, beside what the records say. No I/O."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from remote.transport.failure import Failure


@dataclass
class HostLink:
    """The connections to one host: the one in use, and one that is being opened beside it.

    Times are by the session's clock, in seconds.
    """

    index: int
    """The number of the host."""
    is_open: bool = False
    """A connection is in use."""
    is_opening: bool = False
    """Another one is being opened."""
    met: bool = False
    """A connection has led to the host."""
    released: bool = False
    """Nothing more is needed from the host."""
    heard_at: float = 0.0
    """When something came last."""
    spared_at: float = 0.0
    """When the host's silence was last not held against it."""
    tried_at: float = 0.0
    """When the first try to reach it was over; 0 before."""
    retry_at: float = 0.0
    """When it may be tried again."""
    parted_at: float = 0.0
    """When the connection in use broke."""
    held_up: float = 0.0
    """For how long the host has not taken the command that is being sent."""
    behind: float = 0.0
    """What came in the last so many seconds is still to be taken in."""
    failure: Failure | None = None
    """Why the host is to be given up."""
    problem: Failure | None = None
    """Why a host is not reached yet; more tries follow."""
    reported_problem: Failure | None = None
    """The problem that was said last."""
    sent: set[Hashable] = field(default_factory=set)
    """The keys of the commands that the connection in use has taken."""

    @property
    def is_first(self) -> bool:
        """Return True while the host is being reached for the first time."""
        return self.is_opening and not self.tried_at
