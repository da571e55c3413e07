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
    """Where a rank is; the last five are fates. In rendezvous it has not reached the port where
    ranks meet, joining it has."""

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


class Verdict(Enum):
    """How a run ended, and the exit code that says so."""

    FINISHED = 0
    FAILED = 1
    REFUSED = 2
    LOST = 3
    STOPPED = 130
