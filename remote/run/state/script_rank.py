"""A rank of a script: what the script prints, and what the watch sees of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import ClassVar

from remote.events import Parsed
from remote.format import figure
from remote.run.series.step_times import RECENT
from remote.run.state.loss_match import LossMatch
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import LASTING_FIELDS, RankState
from training.wire.enums import Phase
from training.wire.events import Event
from training.wire.host_events import Exited, WorkerExited
from training.wire.rank_events import Collectives, Entered, Isolation, ScriptMetrics, StepFinished
from training.wire.step_block import StepColumns

REPORTS = 20
"""Reports that say how often there are some."""
LONGEST_GAP_WEIGHT = 0.2
"""How much the longest time between two reports counts: an evaluation, which no script announces,
takes as long the next time."""
LONGEST_CALL = 60
"""Characters of the name of a function of torch."""
OTHER_LOSS = 2.5
"""From this ratio on, what a script prints is another quantity than what it calls `backward` on: a
mean instead of a sum, or the loss before it is divided by the steps of accumulation."""
REPORT_INTERVAL = 0.05
"""The seconds between two reports of a watch, see `training.watch.steps`."""
LOSSES_FOR_DIVERGED = 3
"""Losses in a row that are no numbers until the run has diverged: a log may have a gap."""


def unknown_if_zero(value: float) -> float:
    """Return a figure of a script's steps, NaN if it is 0.

    A script reports few figures. Those that it does not report are 0 in its `Step`s, so for a
    script 0 means unknown. A rank of a job measures all of them, and its 0 is a value.
    """
    return value or math.nan


@dataclass(slots=True)
class CollectiveTotals:
    """What a rank has exchanged by functions of torch.distributed, as far as these are watched."""

    count: int = 0
    """Calls."""
    bytes: int = 0
    seconds: float = 0.0
    """In which it was blocked."""
    newest: Collectives | None = None

    def append(self, event: Collectives) -> None:
        """Take in the next report."""
        self.count += event.count
        self.bytes += event.bytes
        self.seconds += event.seconds
        self.newest = event

    def per_second(self, figure: str) -> float:
        """Return how much of a figure came in a second of the time before the newest report."""
        if not self.newest or not self.newest.span:
            return math.nan
        return float(getattr(self.newest, figure)) / self.newest.span


def join_totals(ranks: Iterable[ScriptRank]) -> CollectiveTotals:
    """Return what these ranks have exchanged together."""
    joined = CollectiveTotals()
    for rank in ranks:
        joined.count += rank.collectives.count
        joined.bytes += rank.collectives.bytes
        joined.seconds += rank.collectives.seconds
    return joined


@dataclass(slots=True)
class ScriptRank(RankState):
    """A rank of a script.

    If its log has only every hundredth step, a recorded step stands for the hundred since the last.
    Its `loss` is the newest that the script prints as "loss", as long as it goes on to print it;
    else that of its newest step.
    """

    lasting_fields: ClassVar[tuple[str, ...]] = (
        *LASTING_FIELDS,
        "metrics",
        "hides_step_losses",
        "all_print_losses",
    )
    meeting: str = ""
    """The function of torch in which it waits for the others; "" if that is not known."""
    meeting_address: tuple[str, int] | None = None
    """The IPv4 address and the port where it meets the others there; None if these are not
    known."""
    meetings: int = 0
    """How often it has come to such a function, in this attempt before its first step."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Its newest values by name."""
    parsed: Parsed | None = None
    """How its output is read."""
    collectives: CollectiveTotals = field(default_factory=CollectiveTotals)
    isolation: Isolation | None = None
    """The newest report that it trains alone, or no longer."""
    isolated_at: float = 0.0
    """When it reported that it trains alone; 0 before."""
    connected_at: float = 0.0
    """When it reported that it exchanges something after all; 0 before."""
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=REPORTS))
    """The seconds between its last reports."""
    longest_gap: float = 0.0
    is_watched: bool = False
    """The watch reports its steps."""
    printed_step: int = 0
    """The step of the newest printed loss that became its `loss`; 0: none. Losses of steps that are
    read from its log do not count."""
    steps_between_prints: int = 0
    """The steps from the loss that it had printed before to that one."""
    loss_match: LossMatch = field(default_factory=LossMatch)
    """How the first loss that it printed compares with those of its steps."""
    hides_step_losses: bool = False
    """The script prints a loss of another quantity than that of its steps."""
    all_print_losses: bool = False
    """All ranks of the run have printed a loss. If only some do, the losses of steps are shown, so
    that those of all ranks are of one kind."""
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """The losses of its last steps; NaN for a loss that diverged. Steps whose loss nobody reads are
    left out, and so are losses that it prints without a step."""

    @property
    def doing(self) -> str:
        """See `RankState.doing`. Without a step, nobody knows whether it trains."""
        is_silent = self.phase is RankPhase.TRAINING and not (self.step or self.stalled)
        # With its arguments: `super()` alone does not know the class that a dataclass with slots
        # becomes.
        return "running" if is_silent else super(ScriptRank, self).doing

    @property
    def start_phase(self) -> RankPhase | None:
        """See `RankState.start_phase`. It runs from its first line on, and imports torch first."""
        if self.phase is RankPhase.TRAINING and not self.step:
            return RankPhase.IMPORTING
        return super(ScriptRank, self).start_phase

    @property
    def only_exchanges(self) -> bool:
        """See `RankState.only_exchanges`."""
        return not self.step and self.collectives.count > 0

    @property
    def is_isolated(self) -> bool:
        """Return True if it has exchanged nothing with other ranks so far."""
        return self.isolation is not None and not self.isolation.over

    @property
    def makes_steps(self) -> bool:
        """See `RankState.makes_steps`. Perhaps only one rank of a script reports steps."""
        return self.step > 0

    @property
    def between(self) -> float:
        """See `RankState.between`."""
        mean_gap = sum(self.gaps) / len(self.gaps) if self.gaps else 0.0
        if not self.pace:
            return mean_gap
        return max(self.pace.seconds, mean_gap, LONGEST_GAP_WEIGHT * self.longest_gap)

    @property
    def is_diverged(self) -> bool:
        """See `RankState.is_diverged`. Its loss is infinite, or was a number and stays NaN."""
        # A log may lack a number, but does not make up an infinite one.
        if math.isinf(self.loss):
            return True
        are_nan = [math.isnan(loss) for loss in self.losses]
        has_lasted = len(are_nan) > LOSSES_FOR_DIVERGED and all(are_nan[-LOSSES_FOR_DIVERGED:])
        # Losses that never were numbers are those of a script that does not report any.
        return has_lasted and not all(are_nan)

    @property
    def recent_loss(self) -> float | None:
        """See `RankState.recent_loss`. If it shows the loss that it prints, this is the newest."""
        reads_loss = self.shows_printed_loss or not self.is_watched
        if reads_loss and math.isfinite(self.loss):
            return self.loss
        return super(ScriptRank, self).recent_loss

    @property
    def prints_loss(self) -> bool:
        """See `RankState.prints_loss`."""
        return self.printed_step > 0 and self.step <= self._last_step_of_print

    @property
    def shows_printed_loss(self) -> bool:
        """See `RankState.shows_printed_loss`."""
        return self.hides_step_losses or (self.prints_loss and self.all_print_losses)

    @property
    def holds_steps_back(self) -> bool:
        """See `RankState.holds_steps_back`. The watch reports quick steps together."""
        return self.is_watched and self.pace.seconds < REPORT_INTERVAL

    @property
    def tells_loss(self) -> bool:
        """See `RankState.tells_loss`."""
        return self.step > 0 and not (self.hides_step_losses and "loss" not in self.metrics)

    @property
    def prints_other_loss(self) -> bool:
        """True if the first loss that it printed is another quantity than that of its steps."""
        return self.loss_match.ratio >= OTHER_LOSS

    def describe_other_loss(self) -> str:
        """Say that it prints another loss than that of its steps, by which numbers."""
        printed = self.loss_match.printed
        if printed is None:
            return ""
        place_text = f" at step {printed.step}" if printed.names_step else ""
        printed_text = f"rank {self.rank} prints {figure(printed.value)}{place_text}"
        step_text = f"backward() is called on {figure(self.loss_match.step_loss)}"
        return f"printed loss taken for another quantity: {printed_text}, where {step_text}"

    def hide_step_losses(self) -> None:
        """Leave the losses of steps out from now on, since the script prints another quantity."""
        self.hides_step_losses = True
        self.losses.clear()
        self.loss = self.metrics.get("loss", math.nan)

    def apply(self, event: Event, when: float) -> None:
        """See `RankState.apply`."""
        match event:
            case Parsed():
                self.parsed = event
                return
            case Collectives():
                self.heard = when
                self.collectives.append(event)
                # Once it makes steps, these say how far it is.
                if not self.step:
                    self._note_report(when)
                return
            case Isolation():
                self.heard = when
                self._take_isolation(event, when)
                return
            case StepFinished():
                self._leave_meeting()
                self._note_report(when)
            case ScriptMetrics():
                self._note_report(when)
            case Entered():
                self._take_meeting(event)
            case Exited() | WorkerExited():
                self.loss_match.end()
        if isinstance(event, ScriptMetrics):
            self.heard = when
            self._take_metrics(event)
        else:
            RankState.apply(self, event, when)

    def _leave_meeting(self) -> None:
        self.meeting = ""
        self.meeting_address = None

    def _take_meeting(self, event: Entered) -> None:
        self._leave_meeting()
        if event.phase == Phase.JOINING:
            call = event.call
            # A host may send anything.
            is_name = call.isidentifier() and len(call) <= LONGEST_CALL
            self.meeting = call if is_name else "a collective"
            self.meetings += 1
            self.meeting_address = _read_address(event.address)

    def _note_report(self, when: float) -> None:
        if self.stepped_at and when > self.stepped_at:
            gap = when - self.stepped_at
            self.gaps.append(gap)
            self.longest_gap = max(self.longest_gap, gap)
        self.stepped_at = when
        self.stalled = False

    def _take_isolation(self, event: Isolation, when: float) -> None:
        self.isolation = event
        if event.over:
            self.connected_at = when
        else:
            self.isolated_at = when

    def _take_metrics(self, event: ScriptMetrics) -> None:
        self.metrics.update(event.values)
        printed_loss = dict(event.values).get("loss")
        # Steps that are read from a log have its losses themselves.
        if printed_loss is not None and (self.is_watched or not self._steps_have_losses):
            step = event.step or self.step
            self._take_printed_loss(printed_loss, step)
            self.loss_match.take_print(printed_loss, step, names_step=event.names_step)
        self.accuracy = self.metrics.get("accuracy", self.accuracy)

    def _take_printed_loss(self, printed_loss: float, step: int) -> None:
        self.loss = printed_loss
        self.steps_between_prints = max(1, step - self.printed_step)
        self.printed_step = step
        if self.hides_step_losses:
            self.losses.append(printed_loss)

    @property
    def _steps_have_losses(self) -> bool:
        return not all(map(math.isnan, self.losses))

    @property
    def _follows_step_losses(self) -> bool:
        """Return True if its `loss` is that of its newest step, unless nobody could read it."""
        return self._steps_have_losses and not (self.is_watched and self.prints_loss)

    @property
    def _last_step_of_print(self) -> int:
        """Return the last step for which the newest printed loss stands."""
        return self.printed_step + 2 * self.steps_between_prints

    def shown_step(self, step: StepFinished) -> StepFinished:
        """Return a step as it is shown: without its loss, where the script prints another one."""
        if self.hides_step_losses and is_of_watch(step.compute, step.sync):
            return replace(step, loss=math.nan, loss_known=False)
        return step

    def shown_steps(self, steps: StepColumns) -> StepColumns:
        """Return steps as they are shown, see `shown_step`."""
        if not self.hides_step_losses:
            return steps
        are_hidden = [*map(is_of_watch, steps.compute, steps.sync)]
        are_known = [
            is_known and not is_hidden
            for is_known, is_hidden in zip(steps.loss_known, are_hidden, strict=True)
        ]
        losses = [
            math.nan if is_hidden else loss
            for loss, is_hidden in zip(steps.loss, are_hidden, strict=True)
        ]
        return replace(steps, loss=losses, loss_known=are_known)

    def take_steps(self, steps: StepColumns, times: Sequence[float]) -> None:
        """See `RankState.take_steps`."""
        self._leave_meeting()
        for when in times:
            self._note_report(when)
        self.heard = times[-1]
        self.step = steps.step[-1]
        self.seconds = steps.seconds[-1]
        if is_of_watch(steps.compute[0], steps.sync[0]):
            self.loss_match.take_steps(steps.step[0], steps.loss)
        if steps.loss_known[0]:
            self.losses.extend(steps.loss)
            if self._follows_step_losses:
                self.loss = steps.loss[-1]
        self.pace.append_steps(steps)
        self.timing.append_steps(steps)

    def find_turns(self) -> list[int]:
        """See `RankState.find_turns`."""
        # Its `loss` is then that of its steps again.
        return [self._last_step_of_print] if self.prints_loss else []

    def shown_losses(self, steps: StepColumns) -> Sequence[float]:
        """See `RankState.shown_losses`."""
        is_of_steps = steps.loss_known[0] and self._follows_step_losses
        return steps.loss if is_of_steps else [self.loss] * len(steps)

    def take_step(self, step: StepFinished) -> None:
        """Take in one step, or the last of several."""
        is_from_watch = is_of_watch(step.compute, step.sync)
        self.is_watched = self.is_watched or is_from_watch
        # A log may have every hundredth step only, whose time then stands for all hundred.
        steps_made = step.step - self.step if 0 < self.step < step.step else 1
        self.step = step.step
        self.seconds = step.seconds
        self.epoch = step.epoch or self.epoch
        if step.loss_known:
            self.losses.append(step.loss)
            if self._follows_step_losses:
                self.loss = step.loss
        if is_from_watch:
            self.loss_match.take_steps(step.step, [step.loss])
            # The log may have had its first step before, from a line printed as the step began.
            self.timing.begin_after(step.step - 1)
        if math.isfinite(step.seconds):
            self.pace.append(step, steps_made)
            self.timing.append(step, steps_made)
        else:
            self.timing.begin_after(step.step)


def _read_address(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    try:
        return str(IPv4Address(host)), int(port)
    except ValueError:
        return None


def is_of_watch(compute: float, sync: float) -> bool:
    """Return True if the watch reports a step with these times: a log does not tell how the time of
    a step is split."""
    return compute > 0 or sync > 0
