"""The events that a rank reports of itself. `training.wire.events` says how they travel."""

from __future__ import annotations

import math
from typing import ClassVar

from training.wire.enums import Phase
from training.wire.records import COUNT, LAST_TIME, SECONDS, Bounds, Event, immutable, require

_SHARE = (0.0, 1.0)
_DIFFERENCE = (-LAST_TIME, LAST_TIME)
"""Of seconds that are left when others are taken away: these may come from another clock."""
_PLACE: Bounds = {"epoch": COUNT, "step": COUNT}
"""How far a rank is."""
_RESULT: Bounds = {**_PLACE, "samples": COUNT, "seconds": SECONDS, "accuracy": _SHARE}
_STARTED_COUNTS = (
    *("pid", "world_size", "threads", "parameters", "steps", "steps_per_epoch"),
    *("train_samples", "test_samples", "resumed"),
)


@immutable
class Entered(Event):
    """A rank has entered a phase. A script enters `JOINING` where it waits for all others before
    its first step, and leaves it for `TRAINING`."""

    rank: int
    phase: Phase
    call: str = ""
    """The function of torch in which a script waits."""
    address: str = ""
    """HOST:PORT where its ranks meet, in `init_process_group`; "" if it is not known."""


@immutable
class Started(Event):
    """All ranks are connected, and this rank begins its first step."""

    bounds = dict.fromkeys(_STARTED_COUNTS, COUNT)

    rank: int
    pid: int
    world_size: int
    device: str
    backend: str
    torch: str
    threads: int
    parameters: int
    steps: int
    """Steps of the whole run."""
    steps_per_epoch: int
    train_samples: int
    test_samples: int
    resumed: int = 0
    """The step of the checkpoint that training continues from."""


@immutable
class StepFinished(Event):
    """A rank has made one step. `epoch` and `step` count from 1, `step` over all epochs.

    Times are wall seconds of the training thread. The answers of an asynchronous server count in
    its own next step; a dedicated server has no steps and reports none.
    """

    wire_name = "step"
    bounds: ClassVar[Bounds] = {
        **_PLACE,
        **dict.fromkeys(("samples", "correct", "bytes_sent", "staleness"), COUNT),
        **dict.fromkeys(("seconds", "cpu_seconds"), SECONDS),
        **dict.fromkeys(("data", "compute", "sync", "ready"), _DIFFERENCE),
    }  # the loss may be any number

    rank: int
    epoch: int
    step: int
    loss: float
    """The mean over the rank's own `samples`."""
    seconds: float
    """From the end of the previous step to the end of this one."""
    data: float = 0.0
    """Seconds until the batch is on the device."""
    compute: float = 0.0
    """The rest of `seconds`, without `data` and `sync`."""
    sync: float = 0.0
    """Seconds blocked on other ranks."""
    ready: float = 0.0
    """From the start of the step to the last local gradient, without the waits until then."""
    cpu_seconds: float = 0.0
    """CPU time of the process."""
    samples: int = 0
    correct: int = 0
    """How many of `samples` were classified correctly."""
    bytes_sent: int = 0
    """The payload that the sync method passed to the network."""
    staleness: int = 0
    """Parameter server: updates from other ranks between this rank's pull and its push."""
    loss_known: bool = True
    """False if nobody could read the loss of a script. `loss` is NaN then, and has not
    diverged."""


@immutable
class Epoch(Event):
    """A rank has finished an epoch: mean loss and accuracy over its own training samples, and the
    total seconds of its steps."""

    bounds = _RESULT

    rank: int
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float


@immutable
class Drifted(Event):
    """The models of the ranks differ after this step, although the sync method keeps them equal.

    Rank 0 reports the relative difference. It is infinite if parameters of some rank are NaN or
    infinite.
    """

    bounds: ClassVar[Bounds] = {"step": COUNT}

    rank: int
    step: int
    difference: float

    @property
    def extent(self) -> str:
        """Put the difference into words."""
        if self.difference < math.inf:
            return f"by {self.difference:.1e}, relatively"
        return "beyond measure: on some ranks they are not numbers"


@immutable
class Saved(Event):
    """A rank has saved its part of a checkpoint. Training paused for `seconds`; `size` is in
    bytes."""

    bounds: ClassVar[Bounds] = {**_PLACE, "seconds": SECONDS, "size": COUNT}

    rank: int
    epoch: int
    step: int
    seconds: float
    size: int


@immutable
class Evaluated(Event):
    """The result of the model on the whole test set, merged, and equal on all ranks."""

    bounds: ClassVar[Bounds] = {**_RESULT, "own_accuracy": (-1.0, 1.0)}

    rank: int
    epoch: int
    step: int
    loss: float
    accuracy: float
    """A fraction."""
    samples: int
    seconds: float
    confusion: tuple[tuple[int, ...], ...] = ()
    """A row per true class and a column per predicted class. Rank 0 only, up to 100 classes."""
    own_accuracy: float = -1.0
    """That of this rank's own model or BatchNorm statistics, if ranks keep their own, else -1."""
    classes: tuple[str, ...] = ()
    """The names of the classes, if there are any."""

    def validate(self) -> None:
        """Raises: ValueError."""
        # Not by super(), which does not know the class that a dataclass with slots becomes.
        Event.validate(self)
        for row in self.confusion:
            for count in row:
                require("confusion", count, *COUNT)


@immutable
class Finished(Event):
    """A rank has ended its training well after `step`, `seconds` after `Started`. A run is finished
    when its ranks have exited well, whatever the step."""

    bounds: ClassVar[Bounds] = {**_PLACE, "seconds": SECONDS}

    rank: int
    epoch: int
    step: int
    seconds: float


@immutable
class ScriptMetrics(Event):
    """Values that a script printed or wrote, by name, after `step`. `step` and `epoch`
    are 0 where unknown. Launchers read them out of what ranks print; see `remote.formats`."""

    wire_name = "metrics"
    bounds: ClassVar[Bounds] = {**_PLACE, "step_time": SECONDS}

    rank: int
    step: int
    epoch: float
    values: tuple[tuple[str, float], ...]
    names_step: bool = False
    """What was printed names the step, perhaps counted from 0. Otherwise `step` is the newest one
    at that time, or one shortly before."""
    step_time: float = 0.0
    """When the rank made the step, by the clock of its host; 0: unknown. The record has the time at
    which the line came."""

    def made_at(self, line_time: float) -> float:
        """Return the time of the step, or that of the line where it is not known. No line comes
        before its step."""
        return min(self.step_time, line_time) if self.step_time else line_time


@immutable
class Collectives(Event):
    """What a rank of a script has exchanged by functions of torch.distributed since the event
    before: watched, not printed. DDP exchanges gradients in C++, which is not part of it."""

    bounds: ClassVar[Bounds] = {
        "count": COUNT,
        "bytes": COUNT,
        "seconds": SECONDS,
        "span": SECONDS,
    }
    identifiers = ("name",)

    rank: int
    count: int
    """Calls, also of `isend`, `irecv` and those of torch.distributed.rpc."""
    bytes: int = 0
    """The sum over all calls of the bytes of their tensors: those passed in or those returned,
    whichever are more."""
    seconds: float = 0.0
    """Seconds for which the rank was blocked in these calls, or waited for earlier ones."""
    span: float = 0.0
    """Seconds since the event before; 0 for the first."""
    name: str = ""
    """The function that was called last."""
    inside: bool = False
    """The rank is still inside that call."""


@immutable
class Isolation(Event):
    """A rank of a script has exchanged nothing with others in its first `steps` steps."""

    bounds: ClassVar[Bounds] = {"steps": COUNT}
    identifiers = ("driver",)

    rank: int
    steps: int
    has_group: bool = False
    """It has a process group, and does not use it."""
    driver: str = ""
    """The framework that calls its optimiser: `fabric`, `lightning` or `accelerate`; else ""."""
    over: bool = False
    """It has exchanged something since, so that the finding no longer holds."""


RANK_EVENTS = (
    Entered,
    Started,
    StepFinished,
    Epoch,
    Drifted,
    Saved,
    Evaluated,
    Finished,
    ScriptMetrics,
    Collectives,
    Isolation,
)
