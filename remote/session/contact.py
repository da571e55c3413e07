"""What a session knows of its connections to a host, beside what the records say. No I/O."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from remote.transport.failure import Cause


@dataclass
class Contact:
    """The connections to one host: the one in use, and one that is being opened beside it.

    Times are by the session's clock. `heard_at` is when something came last, `spared_at` when the
    host's silence was last not held against it; `tried_at` when the first try to reach it was over,
    0 before; `retry_at` when another may be made; `parted_at` when the one in use broke. `met`: one
    has led to the host. `failure` is why the host cannot be reached and is to be given up, `cause`
    is its kind; `problem` why a host of a run that this launcher has returned to is not reached
    yet, and `told` which of these was said last. `sent` are the commands that the one in use has
    taken. `held_up` is for how long the host has not taken the command that is being sent; what
    came in the last `behind` seconds is still to be taken in. `released`: nothing more is wanted of
    the host.
    """

    index: int
    is_open: bool = False
    is_opening: bool = False
    met: bool = False
    released: bool = False
    heard_at: float = 0.0
    spared_at: float = 0.0
    tried_at: float = 0.0
    retry_at: float = 0.0
    parted_at: float = 0.0
    held_up: float = 0.0
    behind: float = 0.0
    failure: str = ""
    cause: Cause | None = None
    problem: str = ""
    told: str = ""
    sent: set[Hashable] = field(default_factory=set)

    @property
    def is_first(self) -> bool:
        """Whether the host is being reached for the first time."""
        return self.is_opening and not self.tried_at
