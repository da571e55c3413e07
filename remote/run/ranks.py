"""The parts of a run as last heard of: its hosts, its ranks, a line of its log, and the phases that
they go through."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import NamedTuple

from remote.run.cause import Death
from remote.run.series import NAN, Series, Timing
from training.wire import events

LAST_WORDS = 200
"""Lines of a rank's stderr that are searched for the cause: a chain of tracebacks through torch,
with its stacks of C++, takes 100 and more."""
RECENT = 20
"""Steps over which the current pace and the share of sync are taken."""


LASTING = (
    *(
        "timing",
        "loss_series",
        "seconds_series",
        "staleness_series",
        "cpu_series",
        "epochs",
        "epoch_times",
    ),
    *("epoch", "step", "loss", "accuracy", "test_loss", "test_accuracy", "own_accuracy"),
    *("saved", "saved_step", "saved_bytes", "saving_seconds"),
)
"""What of a rank's state goes on when it is started again."""


@dataclass(frozen=True)
class Restart:
    """The run was started again `seconds` after it began, and goes on after `step`; 0 where no rank
    has said so yet."""

    seconds: float
    step: int = 0


@dataclass(frozen=True)
class Diverged:
    """A rank's loss, the first of the run, that was no finite number: `value` is nan, inf or
    -inf."""

    rank: int
    step: int
    value: float

    @property
    def text(self) -> str:
        """In words: "loss is NaN at step 12 (rank 0)"."""
        return f"loss is {self.what} at step {self.step} (rank {self.rank})"

    @property
    def what(self) -> str:
        """What the loss is, in a word."""
        return "NaN" if math.isnan(self.value) else "infinite"


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


class LogLine(NamedTuple):
    """One line for the log pane. `number` counts all lines of the run from 0; `rank` is -1 for
    hosts and the session.

    `stream` is `stdout`, `stderr`, or `note` for narration.
    """

    number: int
    time: float
    host: str
    rank: int
    stream: str
    text: str


@dataclass
class RankState:
    """One rank as last heard of. Times in seconds, memory in bytes, `cpu` in percent of one core,
    accuracies as fractions.

    `since` is when its phase began. `accuracy` is over the epoch's samples so far; `sync_share`
    over the last steps; `own_accuracy` by its own model or statistics where each rank keeps them;
    `epochs` what it said at the end of each; `epoch_times` the sums of the steps' seconds of each
    finished epoch, `epoch_so_far` of the one under way. `begun` is what it said at its first step;
    `exit` its end in words, "" while it lives, `exited_from` the phase it ended in; `tail` its last
    lines on stderr. `serves`: it makes no steps, but holds the parameters for those that do.
    `saved_step` is its newest checkpoint's, `saving_seconds` what all of them took, `saved` how
    many, `saved_bytes` its part of the newest. `stepped_at` is when it made its last step,
    `stalled`: the next one, or the end of its phase, is long overdue; `stack` is its newest, of
    `stack_time`.
    """

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
    sync_share: float = NAN
    cpu: float = NAN
    memory: int = 0
    test_loss: float = NAN
    test_accuracy: float = NAN
    own_accuracy: float = NAN
    exit: str = ""
    timing: Timing = field(default_factory=Timing)
    loss_series: Series = field(default_factory=Series)
    seconds_series: Series = field(default_factory=Series)
    staleness_series: Series = field(default_factory=Series)
    cpu_series: Series = field(default_factory=Series)
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
    exited: events.Exited | None = None
    exited_from: RankPhase = RankPhase.WAITING
    death: Death | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    correct: int = 0
    samples: int = 0
    saved: int = 0
    saved_step: int = 0
    saved_bytes: int = 0
    saving_seconds: float = 0.0

    def again(self, local_rank: int, host: int, when: float) -> RankState:
        """The rank in the next attempt, perhaps elsewhere: what is drawn and timed of it goes
        on."""
        return RankState(
            self.rank,
            local_rank,
            host,
            since=when,
            **{name: getattr(self, name) for name in LASTING},
        )

    @property
    def doing(self) -> str:
        """Its phase, or that it has come to a halt in it."""
        return "stalled" if self.stalled and self.phase not in FATES else self.phase.value

    @property
    def epoch_seconds(self) -> list[float]:
        """The seconds of the epochs that it has finished, from their first step on, in order."""
        return list(self.epoch_times.values())

    @property
    def pace(self) -> float:
        """Median seconds of the last steps; NaN before the first."""
        return statistics.median(seconds for seconds, _ in self.recent) if self.recent else NAN

    def enter(self, phase: RankPhase, when: float) -> None:
        """Go on to a phase."""
        if phase is not self.phase:
            self.phase, self.since, self.stalled = phase, when, False
        self.serves = self.serves or phase is RankPhase.SERVING

    def stepped(self, step: events.Step) -> None:
        """Take in one iteration."""
        if step.epoch != self.epoch:
            self._close_epoch()
            self.epoch, self.correct, self.samples = step.epoch, 0, 0
        if step.step <= self.step:  # it was started again, from a checkpoint
            for series in (self.loss_series, self.seconds_series, self.staleness_series):
                series.rewind(step.step)
        self.step, self.loss, self.seconds = step.step, step.loss, step.seconds
        self.epoch_so_far += step.seconds
        self.correct += step.correct
        self.samples += step.samples
        self.accuracy = self.correct / self.samples if self.samples > 0 else NAN
        self.timing.append(step.seconds, step.data, step.compute, step.sync, step.samples)
        self.recent.append((step.seconds, step.sync))
        total = sum(seconds for seconds, _ in self.recent)
        self.sync_share = sum(sync for _, sync in self.recent) / total if total > 0 else NAN
        self.loss_series.append(step.step, step.loss)
        self.seconds_series.append(step.step, step.seconds)
        self.staleness_series.append(step.step, step.staleness)
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
        self.test_loss, self.test_accuracy = found.loss, found.accuracy
        if found.own_accuracy >= 0:
            self.own_accuracy = found.own_accuracy

    def keep(self, saved: events.Saved) -> None:
        """Take in its part of a checkpoint."""
        self.saved += 1
        self.saved_step, self.saved_bytes = saved.step, saved.size
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


@dataclass
class HostState:
    """One host as last heard of; `heard` is when, by the session's clock. `cpu` is percent per
    core, memory and network bytes.

    `since` is when its phase began. `reason` says why it is lost, refused or ended; `end` is its
    agent's last record. `began` is when its agent began, before which nothing of it happened.
    `saved_step` is the newest checkpoint that its first rank said is complete: on this host alone,
    where others may be lost. `missed`: nothing is heard of it, `back` is when records came again;
    `gone`: it was lost, or its agent killed; `parted`: a connection to it broke.
    """

    index: int
    name: str
    phase: HostPhase = HostPhase.WAITING
    since: float = 0.0
    hello: events.Hello | None = None
    offset: float = 0.0
    began: float = 0.0
    heard: float = 0.0
    cpu: tuple[float, ...] = ()
    memory_used: int = 0
    memory_total: int = 0
    sent: int = 0
    received: int = 0
    reason: str = ""
    end: events.Ended | None = None
    gone: bool = False
    saved_step: int = 0
    missed: bool = False
    back: float = 0.0
    parted: bool = False
    dropped: bool = False
    death: Death | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))

    def enter(self, phase: HostPhase, when: float) -> None:
        """Go on to a phase."""
        if phase is not self.phase:
            self.phase, self.since = phase, when
