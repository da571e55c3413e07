"""One rank of a run, as its records tell it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from remote.run.series.pace import Pace
from remote.run.series.timing import NAN, Timing
from remote.run.state.host_state import LAST_WORDS
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.types import Death
from training.wire import events
from training.wire.events import Event

CPU = "cpu"
"""The device of ranks whose gradients the cores compute."""
LASTING = (
    *("timing", "epochs", "epoch_times"),
    *("epoch", "step", "loss", "accuracy", "test_loss", "test_accuracy", "own_accuracy"),
    *("saved", "saved_step", "saved_bytes", "saving_seconds"),
)
"""What of a rank's state goes on when it is started again."""


@dataclass(slots=True)
class RankState:
    """One rank as last heard of. Times in seconds, memory in bytes, `cpu` in percent of one core,
    accuracies as fractions. `gpu` is the last sample of its GPU.

    `since` is when its phase began. `accuracy` is over the epoch's samples so far; `pace` of its
    last steps; `own_accuracy` by its own model or statistics where each rank keeps them;
    `epochs` what it said at the end of each; `epoch_times` the sums of the steps' seconds of each
    finished epoch, `epoch_so_far` of the one under way. `begun` is what it said at its first step;
    `exit` its end in words, "" while it lives, `exited_from` the phase it ended in; `tail` its last
    lines on stderr. `serves`: it makes no steps, but holds the parameters for those that do.
    `saved_step` is its newest checkpoint's, `saving_seconds` what all of them took, `saved` how
    many, `saved_bytes` its part of the newest. `stepped_at` is when it made its last step,
    `stalled`: the next one, or the end of its phase, is long overdue; `stack` is its newest, of
    `stack_time`, when it had made `stack_step` steps. `heard` is when something came of it last.
    """

    lasting: ClassVar[tuple[str, ...]] = LASTING
    rank: int
    local_rank: int
    host: int
    phase: RankPhase = RankPhase.WAITING
    since: float = 0.0
    pid: int = 0
    epoch: int = 0
    step: int = 0
    loss: float = NAN
    accuracy: float = NAN
    seconds: float = NAN
    cpu: float = NAN
    memory: int = 0
    gpu: events.GpuSample | None = None
    test_loss: float = NAN
    test_accuracy: float = NAN
    own_accuracy: float = NAN
    exit: str = ""
    timing: Timing = field(default_factory=Timing)
    epochs: list[events.Epoch] = field(default_factory=list)
    epoch_times: dict[int, float] = field(default_factory=dict)
    epoch_so_far: float = 0.0
    begun: events.Started | None = None
    finished: bool = False
    serves: bool = False
    stepped_at: float = 0.0
    stalled: bool = False
    stack: events.Stack | None = None
    stack_time: float = 0.0
    stack_step: int = 0
    heard: float = 0.0
    exited: events.Exited | None = None
    raised: events.Raised | None = None
    exited_from: RankPhase = RankPhase.WAITING
    death: Death | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    pace: Pace = field(default_factory=Pace)
    correct: int = 0
    samples: int = 0
    saved: int = 0
    saved_step: int = 0
    saved_bytes: int = 0
    saving_seconds: float = 0.0

    def again(self, local_rank: int, host: int, when: float) -> RankState:
        """The rank in the next attempt, perhaps elsewhere: what is drawn and timed of it goes
        on."""
        return type(self)(
            self.rank,
            local_rank,
            host,
            since=when,
            **{name: getattr(self, name) for name in self.lasting},
        )

    @property
    def doing(self) -> str:
        """Its phase, or that it has come to a halt in it."""
        return "stalled" if self.stalled and self.phase not in FATES else self.phase.value

    @property
    def is_diverged(self) -> bool:
        """Whether its loss, which is no finite number, is meant to be one."""
        return True

    @property
    def makes_steps(self) -> bool:
        """Whether the run is as far as its steps say."""
        return not self.serves

    @property
    def between(self) -> float:
        """Seconds from one word of its steps to the next; NaN before the first."""
        return self.pace.seconds

    @property
    def epoch_seconds(self) -> list[float]:
        """The seconds of the epochs that it has finished, from their first step on, in order."""
        return list(self.epoch_times.values())

    @property
    def on_gpu(self) -> bool:
        """Whether it has said that it trains on a GPU."""
        return self.begun is not None and self.begun.device != CPU

    def enter(self, phase: RankPhase, when: float) -> None:
        """Go on to a phase."""
        if phase is not self.phase:
            self.phase = phase
            self.since = when
            self.stalled = False
        self.serves = self.serves or phase is RankPhase.SERVING

    def stepped(self, step: events.StepFinished) -> None:
        """Take in one iteration."""
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
        self.timing.append(step.seconds, step.data, step.compute, step.sync, step.samples)
        self.pace.append(step)
        if self.begun and step.step == step.epoch * self.begun.steps_per_epoch:
            self._close_epoch()

    def ended(self, epoch: events.Epoch) -> None:
        """Take in what an epoch came to. It began anew where it is there already; then what came
        after it did not happen."""
        while self.epochs and self.epochs[-1].epoch >= epoch.epoch:
            self.epochs.pop()
        self.epochs.append(epoch)

    def tested(self, found: events.Evaluated) -> None:
        """Take in an evaluation."""
        self.test_loss = found.loss
        self.test_accuracy = found.accuracy
        if found.own_accuracy >= 0:
            self.own_accuracy = found.own_accuracy

    def keep(self, saved: events.Saved) -> None:
        """Take in its part of a checkpoint."""
        self.saved += 1
        self.saved_step = saved.step
        self.saved_bytes = saved.size
        self.saving_seconds += saved.seconds

    def _close_epoch(self) -> None:
        if self.epoch_so_far and not self._resumed_within():
            while self.epoch_times and next(reversed(self.epoch_times)) >= self.epoch:
                self.epoch_times.popitem()
            self.epoch_times[self.epoch] = self.epoch_so_far
        self.epoch_so_far = 0.0

    def _resumed_within(self) -> bool:
        """Whether the rank went on in the middle of the epoch, whose earlier steps were another
        run's."""
        if not self.begun or self.begun.steps_per_epoch <= 0:
            return False
        whole, more = divmod(self.begun.resumed, self.begun.steps_per_epoch)
        return more > 0 and self.epoch == whole + 1

    def apply(self, event: Event, when: float) -> None:
        """Take in what it, or its agent, says of it."""
        self.heard = when
        match event:
            case events.StepFinished():
                self.stepped(event)
                self.stepped_at = when
                self.stalled = False
            case events.Stack():
                self.stack = event
                self.stack_time = when
                self.stack_step = self.step
            case events.RankSample():
                self.cpu = event.cpu
                self.memory = event.memory
            case events.GpuSample():
                self.gpu = event
            case events.Started():
                self.begun = event
                self.pid = event.pid
            case events.Evaluated():
                self.tested(event)
            case events.Epoch():
                self.ended(event)
            case events.Saved():
                self.keep(event)
            case events.Finished():
                self.finished = True
            case events.Spawned():
                self.pid = event.pid
            case events.Raised():
                self.raised = event
            case events.Exited():
                self._exit(event, when)

    def go_on(self, phase: RankPhase, when: float) -> bool:
        """Enter this phase, if it still lives. Returns whether it did."""
        if self.phase in FATES:
            return False
        self.enter(phase, when)
        return True

    def _exit(self, event: events.Exited, when: float) -> None:
        self.exited = event
        self.exited_from = self.phase
        self.since = when
        self.exit = event.signal or f"exit code {event.code}"
        if event.out_of_memory:
            self.exit += ", out of memory"
