"""Facts that are one of a few words. On the wire each is its value, a string."""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A string that is one of a few. It prints as its value, as `enum.StrEnum` of Python 3.11."""

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, spec: str) -> str:
        return str.__format__(self, spec)


class Phase(_Word):
    """What a rank does. `RENDEZVOUS`: it has not reached the port where ranks meet. `JOINING`: it
    has, and waits for the others."""

    LOADING = "loading"
    RENDEZVOUS = "rendezvous"
    JOINING = "joining"
    TRAINING = "training"
    SERVING = "serving"
    EVALUATING = "evaluating"
    SAVING = "saving"


class Reach(_Word):
    """How far a launcher is with a host."""

    CONNECTING = "connecting"
    DEPLOYING = "deploying"
    STARTING = "starting"
    READY = "ready"


class EndReason(_Word):
    """Why an agent ended."""

    CLOSED = "closed"
    """A launcher sent `Close`."""
    ALL_ENDED = "all_ended"
    """All ranks of a run that is kept have ended, and no launcher is connected."""
    OPERATOR_GONE = "operator_gone"
    """No launcher is connected, and the run is not kept."""
    LEASE_EXPIRED = "lease_expired"
    """A launcher is connected, but sends nothing, and the run is not kept."""
    TERMINATED = "terminated"
    """Somebody sent SIGTERM to the agent."""
    GUARD_DIED = "guard_died"
    """Somebody killed the guard."""
    DISK_FULL = "disk_full"
    """The journal has no room."""
    AGENT_DIED = "agent_died"
    """The agent failed or was killed. Its guard writes this."""
    ABANDONED = "abandoned"
    """Agent and guard are both gone, and what they have left is not known. A follower writes
    this."""
    UNKNOWN = "unknown"
    """A word that this version does not know."""

    @classmethod
    def _missing_(cls, value: object) -> EndReason:
        return cls.UNKNOWN
