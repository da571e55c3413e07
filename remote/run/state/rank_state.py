"""One rank of a run, as its records report it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from remote.run.series.step_times import NAN, RecentSteps, StepTotals
from remote.run.state.host_state import LAST_WORDS
from remote.run.state.phases import FATES, START_PHASES, RankPhase
from remote.run.state.types import Cause
from training.wire.events import Event
from training.wire.host_events import (
    Exited,
    GpuSample,
    Raised,
    RankSample,
    Spawned,
    Stack,
    WorkerExited,
)
from training.wire.rank_events import Epoch, Evaluated, Finished, Saved, Started, StepFinished
from training.wire.step_block import StepColumns

CPU = "cpu"
"""The device of ranks whose gradients the cores compute."""
LASTING_FIELDS = (
    "timing",
    "epochs",
    "epoch_times",
    "epoch",
    "step",
    "loss",
    "accuracy",
    "test_loss",
    "test_accuracy",
    "own_accuracy",
    "saved",
    "saved_step",
    "saved_bytes",
    "saving_seconds",
)
"""Fields that are kept when the rank is started again."""


@dataclass(slots=True)
class RankState:
    """One rank as last heard of. Times by the session's clock, accuracies as fractions."""

    lasting_fields: ClassVar[tuple[str, ...]] = LASTING_FIELDS
    rank: int
    local_rank: int
    host: int
    """The number of its host."""
    phase: RankPhase = RankPhase.WAITING
    since: float = 0.0
    """When its phase began."""
    spent: dict[RankPhase, float] = field(default_factory=dict)
    """The seconds that it was in each phase before its first step."""
    pid: int = 0
    spawned_at: float = 0.0
    """When its process began."""
    process: int = -1
    """The number of the process that has started it, if it is a worker that has joined a process
    group; else -1."""
    epoch: int = 0
    """The epoch of its newest step."""
    step: int = 0
    """The number of its newest step; 0 before the first. A script may report none at all."""
    loss: float = NAN
    """The training loss of its newest step; NaN before the first. Of a script see `ScriptRank`."""
    accuracy: float = NAN
    """Over the epoch's samples so far."""
    seconds: float = NAN
    """Of its newest step."""
    cpu: float = NAN
    """In percent of one core."""
    memory: int = 0
    """In bytes."""
    gpu: GpuSample | None = None
    """The newest sample of its GPU."""
    test_loss: float = NAN
    test_accuracy: float = NAN
    own_accuracy: float = NAN
    """By its own model or statistics, if each rank keeps them."""
    exit: str = ""
    """Its end in words; "" while it lives."""
    timing: StepTotals = field(default_factory=StepTotals)
    """The times of all its steps."""
    pace: RecentSteps = field(default_factory=RecentSteps)
    """Its last steps, of the present attempt alone, and their means. Falsy before the first."""
    epochs: list[Epoch] = field(default_factory=list)
    """What it reported at the end of each epoch."""
    epoch_times: dict[int, float] = field(default_factory=dict)
    """The seconds of all steps of each finished epoch."""
    epoch_so_far: float = 0.0
    """The seconds of the steps of the epoch under way."""
    begun: Started | None = None
    """What it reported at its first step."""
    finished: bool = False
    """It has reported that all its work is done."""
    serves: bool = False
    """It makes no steps, but holds the parameters for the ranks that do."""
    stepped_at: float = 0.0
    """When it made its newest step."""
    first_step_at: float = 0.0
    """When it made its first step, in this attempt."""
    stalled: bool = False
    """Its next step, or the end of its phase, is long overdue."""
    stack: Stack | None = None
    """Its newest stack."""
    stack_time: float = 0.0
    """When that stack came."""
    stack_step: int = 0
    """The number of steps that it had made then."""
    heard: float = 0.0
    """When something came of it last."""
    exited: Exited | None = None
    """The end of its process."""
    is_exit_known: bool = True
    """False if nobody knows with what exit code a worker has ended."""
    raised: Raised | None = None
    """The exception of a script, as the script itself reports it."""
    exited_from: RankPhase = RankPhase.WAITING
    """The phase in which its process ended."""
    death: Cause | None = None
    """What its end says about the cause."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    """Its last lines on stderr."""
    correct: int = 0
    """Samples of the epoch so far that were classified correctly."""
    samples: int = 0
    """Samples of the epoch so far."""
    saved: int = 0
    """How many checkpoints it has saved."""
    saved_step: int = 0
    """The step of its newest checkpoint."""
    saved_bytes: int = 0
    """The size of its part of that."""
    saving_seconds: float = 0.0
    """What all its checkpoints took."""

    def restart(self, local_rank: int, host: int, when: float) -> RankState:
        """Return the rank in the next attempt, perhaps on another host."""
        lasting_values = {name: getattr(self, name) for name in self.lasting_fields}
        return type(self)(self.rank, local_rank, host, since=when, **lasting_values)

    @property
    def has_ended_well(self) -> bool:
        """Return True if its process has exited with code 0."""
        return self.exited is not None and self.exited.code == 0

    @property
    def has_failed(self) -> bool:
        """Return True if its process has exited with another code, or by a signal."""
        return self.exited is not None and self.exited.code != 0

    @property
    def doing(self) -> str:
        """Return its phase in a word, or that it has come to a halt in it."""
        return "stalled" if self.stalled and self.phase not in FATES else self.phase.value

    @property
    def is_diverged(self) -> bool:
        """Return True if a loss that is NaN or infinite says that it has diverged.

        It always does in a job. A script may have no loss to report, see `ScriptRank`.
        """
        return True

    @property
    def recent_loss(self) -> float | None:
        """Return the mean training loss of its last steps (`RECENT`); None before the first.

        If its newest loss is no number and says that it has diverged, it is that one.
        """
        if self.step and self.is_diverged and not math.isfinite(self.loss):
            return self.loss
        mean_loss = self.pace.loss
        known_loss = self.loss if math.isnan(mean_loss) else mean_loss
        return None if math.isnan(known_loss) else known_loss

    @property
    def prints_loss(self) -> bool:
        """Return True if its `loss` is one that it prints, beside the losses of its steps."""
        return False

    @property
    def shows_printed_loss(self) -> bool:
        """Return True if its `recent_loss` is one that it prints."""
        return False

    @property
    def holds_steps_back(self) -> bool:
        """Return True if it reports some steps only at a later one, which may never come."""
        return False

    @property
    def tells_loss(self) -> bool:
        """Return True if it reports losses: a `loss` that is NaN has diverged, instead of being
        unknown."""
        return self.step > 0

    @property
    def only_exchanges(self) -> bool:
        """Return True if collectives are all that is seen of what it does, as in some scripts."""
        return False

    @property
    def makes_steps(self) -> bool:
        """Return True if its steps say how far the run is."""
        return not self.serves

    @property
    def between(self) -> float:
        """Return the seconds from one report of its steps to the next; NaN before the first."""
        return self.pace.seconds

    @property
    def epoch_seconds(self) -> list[float]:
        """Return the seconds of the epochs that it has finished, in order."""
        return list(self.epoch_times.values())

    @property
    def on_gpu(self) -> bool:
        """Return True if it has reported that it trains on a GPU."""
        return self.begun is not None and self.begun.device != CPU

    @property
    def start_phase(self) -> RankPhase | None:
        """Return the phase of the start that it is in; None once it trains."""
        return self.phase if self.phase in START_PHASES else None

    def enter(self, phase: RankPhase, when: float) -> bool:
        """Enter a phase, if the rank still lives. Return True if it does."""
        # Its last records may come after that of its end, by another pipe.
        if self.phase in FATES:
            return False
        if phase is not self.phase:
            start_phase = self.start_phase
            if start_phase and self.since:
                # Ranks of a script may be in a phase several times.
                spent_before = self.spent.get(start_phase, 0.0)
                self.spent[start_phase] = spent_before + when - self.since
            self.phase = phase
            self.since = when
            self.stalled = False
        self.serves = self.serves or phase is RankPhase.SERVING
        return True

    def apply(self, event: Event, when: float) -> None:
        """Take in what the rank, or its agent, reports of it."""
        self.heard = when
        match event:
            case StepFinished():
                self.take_step(event)
                self.first_step_at = self.first_step_at or when
                self.stepped_at = when
                self.stalled = False
            case Stack():
                self.stack = event
                self.stack_time = when
                self.stack_step = self.step
            case RankSample():
                self.cpu = event.cpu
                self.memory = event.memory
            case GpuSample():
                self.gpu = event
            case Started():
                self.begun = event
                self.pid = event.pid
            case Evaluated():
                self._take_evaluation(event)
            case Epoch():
                self._end_epoch(event)
            case Saved():
                self._take_checkpoint(event)
            case Finished():
                self.finished = True
            case Spawned():
                self.pid = event.pid
                self.spawned_at = when
            case Raised():
                self.raised = event
            case Exited():
                self._exit(event, when)
            case WorkerExited():
                self._exit_as_worker(event, when)

    def take_step(self, step: StepFinished) -> None:
        """Take in one step."""
        if step.epoch != self.epoch:
            self._close_epoch()
            self.epoch = step.epoch
            self.correct = 0
            self.samples = 0
        self.step = step.step
        self.loss = step.loss
        self.seconds = step.seconds
        self.epoch_so_far += step.seconds
        self.correct += step.correct
        self.samples += step.samples
        self.accuracy = self.correct / self.samples if self.samples > 0 else NAN
        self.pace.append(step)
        self.timing.append(step)
        self._close_epoch_if_over()

    def take_steps(self, steps: StepColumns, times: Sequence[float]) -> None:
        """Take in steps at once, made at these times. They go on from the newest one, in its epoch,
        and do not go beyond the next of `find_turns`."""
        self.heard = times[-1]
        self.stepped_at = times[-1]
        self.stalled = False
        self.step = steps.step[-1]
        self.loss = steps.loss[-1]
        self.seconds = steps.seconds[-1]
        self.epoch_so_far += sum(steps.seconds)
        self.correct += sum(steps.correct)
        self.samples += sum(steps.samples)
        self.accuracy = self.correct / self.samples if self.samples > 0 else NAN
        self.pace.append_steps(steps)
        self.timing.append_steps(steps)
        self._close_epoch_if_over()

    def find_turns(self) -> list[int]:
        """Return the steps after which the next ones, also of the same epoch, count otherwise."""
        return [self.epoch * self.begun.steps_per_epoch] if self.begun else []

    def shown_losses(self, steps: StepColumns) -> Sequence[float]:
        """Return its `loss` after each of the steps that it has taken in at once."""
        return steps.loss

    def _close_epoch_if_over(self) -> None:
        if self.begun and self.step == self.epoch * self.begun.steps_per_epoch:
            self._close_epoch()

    def _end_epoch(self, epoch: Epoch) -> None:
        # After a restart an epoch may begin anew; then what came after it did not happen.
        while self.epochs and self.epochs[-1].epoch >= epoch.epoch:
            self.epochs.pop()
        self.epochs.append(epoch)

    def _take_evaluation(self, evaluated: Evaluated) -> None:
        self.test_loss = evaluated.loss
        self.test_accuracy = evaluated.accuracy
        # It is negative where all ranks share one model.
        if evaluated.own_accuracy >= 0:
            self.own_accuracy = evaluated.own_accuracy

    def _take_checkpoint(self, saved: Saved) -> None:
        self.saved += 1
        self.saved_step = saved.step
        self.saved_bytes = saved.size
        self.saving_seconds += saved.seconds

    def _close_epoch(self) -> None:
        if self.epoch_so_far and not self._has_resumed_within_epoch():
            # After a restart, an epoch that is made again takes the place of the earlier ones.
            while self.epoch_times and next(reversed(self.epoch_times)) >= self.epoch:
                self.epoch_times.popitem()
            self.epoch_times[self.epoch] = self.epoch_so_far
        self.epoch_so_far = 0.0

    def _has_resumed_within_epoch(self) -> bool:
        """Return True if another run has made the first steps of the epoch."""
        if not self.begun or self.begun.steps_per_epoch <= 0:
            return False
        whole_epochs, more_steps = divmod(self.begun.resumed, self.begun.steps_per_epoch)
        return more_steps > 0 and self.epoch == whole_epochs + 1

    def _exit(self, event: Exited, when: float) -> None:
        self.exited = event
        self.exited_from = self.phase
        self.since = when
        self.exit = event.signal or f"exit code {event.code}"
        if event.out_of_memory:
            self.exit += ", out of memory"

    def _exit_as_worker(self, event: WorkerExited, when: float) -> None:
        self.is_exit_known = event.known
        if event.error:
            self.raised = Raised(self.rank, event.error)
        exited = Exited(self.rank, event.code, event.signal, event.stopped, event.out_of_memory)
        self._exit(exited, when)
        if not event.known:
            self.exit = "without a word"


Ranks = Sequence[RankState]
"""Ranks of a run, in order."""


def find_leader(ranks: Ranks) -> RankState | None:
    """Return the leader: the first living rank that has made a step in this attempt; None if none
    has.

    What follows from all ranks is computed at the leader's steps: once a step, not once a rank. The
    ranks after it are then still one step behind.
    """
    for rank in ranks:
        if rank.pace and rank.phase not in FATES:
            return rank
    return None
