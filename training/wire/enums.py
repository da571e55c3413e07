"""The enums in events. On the wire each member is its value, a string."""

from __future__ import annotations

from enum import Enum


class _StringEnum(str, Enum):
    """Base of the enums. A member prints as its value, as `enum.StrEnum` in Python 3.11."""

    # Without this method, "Phase.LOADING" would be printed: a mixin with `str` keeps Enum's own
    # text.
    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class Phase(_StringEnum):
    """What a rank does."""

    LOADING = "loading"
    """It opens and reads its data set, and downloads it where it is missing."""
    RENDEZVOUS = "rendezvous"
    """It connects to the port where ranks meet."""
    JOINING = "joining"
    """It is connected and waits for the other ranks."""
    TRAINING = "training"
    SERVING = "serving"
    EVALUATING = "evaluating"
    SAVING = "saving"


class Reach(_StringEnum):
    """The progress of a launcher in reaching a host."""

    CONNECTING = "connecting"
    DEPLOYING = "deploying"
    STARTING = "starting"
    READY = "ready"


class EndReason(_StringEnum):
    """Why an agent ended."""

    CLOSED = "closed"
    """A launcher sent `Close`."""
    ALL_ENDED = "all_ended"
    """All ranks of a run that is kept have ended, and no launcher is connected."""
    NO_LAUNCHER = "no_launcher"
    """No launcher came back to start the ranks of a run that is kept."""
    OPERATOR_GONE = "operator_gone"
    """No launcher is connected, and the run is not kept."""
    LEASE_EXPIRED = "lease_expired"
    """A launcher is connected but silent, and the run is not kept."""
    TERMINATED = "terminated"
    """Somebody sent SIGTERM to the agent."""
    GUARD_DIED = "guard_died"
    """Somebody killed the guard."""
    DISK_FULL = "disk_full"
    """The disk has no space for the journal."""
    AGENT_DIED = "agent_died"
    """The agent failed or was killed. Its guard writes this."""
    ABANDONED = "abandoned"
    """Agent and guard were both killed, so processes may be left. A follower writes this."""
    UNKNOWN = "unknown"
    """A reason that this version does not know."""

    @classmethod
    def _missing_(cls, value: object) -> EndReason:
        # The record must be decoded in any case: it is the last one, and says that the agent has
        # ended.
        return cls.UNKNOWN


DEATHS = (
    EndReason.TERMINATED,
    EndReason.GUARD_DIED,
    EndReason.DISK_FULL,
    EndReason.AGENT_DIED,
    EndReason.ABANDONED,
)
"""The reasons of an agent that could not continue."""
