"""Where a run, its hosts and its ranks are."""

from __future__ import annotations

from enum import Enum, StrEnum


class RunPhase(StrEnum):
    """Where the run as a whole is."""

    STARTING = "starting"
    TRAINING = "training"
    STOPPING = "stopping"
    ENDED = "ended"


class HostPhase(StrEnum):
    """Where the session is with a host."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    DEPLOYING = "deploying"
    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    ENDED = "ended"
    LOST = "lost"


class RankPhase(StrEnum):
    """What a rank is doing, or for the last five, how it has ended.

    These are the phases of `training.wire.enums.Phase` that a rank reports, and the launcher's own.
    A rank in `rendezvous` has not yet reached the port where ranks meet. One in `joining` has.
    """

    WAITING = "waiting"
    IMPORTING = "importing"
    LOADING = "loading"
    RENDEZVOUS = "rendezvous"
    JOINING = "joining"
    TRAINING = "training"
    SERVING = "serving"
    EVALUATING = "evaluating"
    SAVING = "saving"
    FINISHED = "finished"
    FAILED = "failed"
    VICTIM = "victim"
    STOPPED = "stopped"
    LOST = "lost"


FATES = frozenset(
    {RankPhase.FINISHED, RankPhase.FAILED, RankPhase.VICTIM, RankPhase.STOPPED, RankPhase.LOST}
)
"""The phases in which a rank's process is gone."""
BEFORE_STEPS = {
    RankPhase.LOADING: "loading its data",
    RankPhase.RENDEZVOUS: "reaching the rendezvous",
    RankPhase.JOINING: "joining the others",
}
"""What a rank does in the phases before its first step."""
MEETINGS = frozenset({RankPhase.EVALUATING, RankPhase.SAVING})
"""The phases between steps, which end for all ranks together."""


class Verdict(Enum):
    """How a run ended, and the exit code that says so."""

    FINISHED = 0
    FAILED = 1
    REFUSED = 2
    LOST = 3
    STOPPED = 130

    @property
    def word(self) -> str:
        """Return the word for it in every list, message and file: a key of `RUN_STATES`."""
        return self.name.lower()


RUN_STATES = {
    "running": "it is live, and a rankboard on this machine records it",
    "finished": "all ranks have ended well",
    "failed": "a rank failed; the cause says which, and why",
    "refused": "it ended before its first step: a check, a host or the job was not fit for it",
    "stopped": "a person stopped it, or its launcher was gone and it was not kept",
    "lost": "a host could not be reached, or died",
    "not started": "its hosts have started no rank, and no record here says why",
    "unknown": "nobody here has seen its end; it may be live",
    "unreadable": "its record cannot be read",
}
"""The words for what a run as a whole is at, with their meanings. A live run that only its hosts
know is in the phase of its ranks instead, see `RankPhase`."""
