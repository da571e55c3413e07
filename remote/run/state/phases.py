"""Where a run, its hosts and its ranks are."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Self

from training.wire.enums import Phase


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


class PhasePart(Enum):
    """The part of a rank's life that a phase belongs to."""

    START = "before its first step"
    STEPS = "making steps, or serving parameters to those that do"
    MEETING = "between steps; it ends for all ranks together"
    END = "its process is gone"


class RankPhase(StrEnum):
    """What a rank is doing or, in a phase of `PhasePart.END`, how it has ended.

    A row is a phase: its word, its part, what the rank does in it, and what others read who wait
    for it. The rows of the start are in the order in which a rank passes them. A rank reports the
    phases whose word is a `Phase` of the wire; the others are the launcher's own.
    """

    part: PhasePart
    activity: str
    """What the rank does, after "while"."""
    wait: str
    """How far a rank is that the others wait for. `reached` is how its host was reached, `port`
    where ranks meet, `dataset` that of its job."""
    script_wait: str
    """The same of a user's own program; a row leaves it out where it is the same, or where no such
    program enters the phase. `call` is the function of torch in which ranks wait."""
    is_reported: bool
    """The rank itself reports it."""

    def __new__(
        cls,
        word: str,
        part: PhasePart | None = None,
        activity: str = "",
        wait: str = "",
        script_wait: str = "",
    ) -> Self:
        """Make a member from its row."""
        # Optional only because type checkers take `RankPhase(word)`, which looks a member up, for
        # a call of this.
        if part is None:
            raise TypeError(f"the row of {word!r} has no part")
        member = str.__new__(cls, word)
        member._value_ = str(word)  # not the member of `Phase`
        member.part = part
        member.activity = activity
        member.wait = wait
        member.script_wait = script_wait or wait
        member.is_reported = isinstance(word, Phase)
        return member

    WAITING = (
        "waiting",
        PhasePart.START,
        "waiting",
        "{reached}ready, but no rank is started yet",
    )
    IMPORTING = (
        "importing",
        PhasePart.START,
        "importing",
        "importing torch",
        "starting the program",
    )
    LOADING = (
        Phase.LOADING,
        PhasePart.START,
        "loading its data",
        "loading {dataset}",
        "loading",
    )
    RENDEZVOUS = (
        Phase.RENDEZVOUS,
        PhasePart.START,
        "reaching the rendezvous",
        "{reached}python started, has not reached {port}",
    )
    JOINING = (
        Phase.JOINING,
        PhasePart.START,
        "joining the others",
        "has reached {port}, connects to the other ranks",
        "all ranks are inside {call}",
    )
    TRAINING = (Phase.TRAINING, PhasePart.STEPS, "training")
    SERVING = (Phase.SERVING, PhasePart.STEPS, "serving")
    EVALUATING = (Phase.EVALUATING, PhasePart.MEETING, "evaluating")
    SAVING = (Phase.SAVING, PhasePart.MEETING, "saving")
    FINISHED = ("finished", PhasePart.END)
    FAILED = ("failed", PhasePart.END)
    VICTIM = ("taken down", PhasePart.END)
    STOPPED = ("stopped", PhasePart.END)
    LOST = ("lost", PhasePart.END)


START_PHASES = tuple(phase for phase in RankPhase if phase.part is PhasePart.START)
"""The way of a rank to its first step, in order."""
REPORTED_START = tuple(phase for phase in START_PHASES if phase.is_reported)
"""The phases of the start that a rank itself reports, in order."""
MEETINGS = frozenset(phase for phase in RankPhase if phase.part is PhasePart.MEETING)
"""The phases between steps, which end for all ranks together."""
FATES = frozenset(phase for phase in RankPhase if phase.part is PhasePart.END)
"""The phases in which a rank's process is gone."""


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


RUNNING = "running"
LEFT = "left"
UNREADABLE = "unreadable"
RUN_STATES = {
    RUNNING: "it is live, and a rankboard on this machine records it",
    "finished": "all ranks have ended well",
    "failed": "a rank failed; the cause says which, and why",
    "refused": "it ended before its first step: a check, a host or the job was not fit for it",
    "stopped": "a person stopped it, or its launcher was gone and it was not kept",
    "lost": "a host could not be reached, or died, or nobody knows how its ranks ended",
    LEFT: "its launcher is gone, and nobody here has seen its end; it may be live",
    UNREADABLE: "its record cannot be read",
}
"""The words for what a run as a whole is at, with their meanings. A live run that only its hosts
know is in the phase of its ranks instead, see `RankPhase`."""
