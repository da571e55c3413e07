"""Puts together what happens in the training thread of a rank: steps, and where their time goes."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .clock import Clock, Point, has_passed, seconds_between

MOST_BEHIND = 64
"""Steps of which a GPU may be behind; older ones are not told."""
REPORT_INTERVAL = 0.05
"""Seconds between two reports. What is told of a step takes a tenth of a millisecond where the
program has filled the caches of its CPU: of quick steps, that of several together takes as long."""
MOST = 10_000
ENDLESS = 1_000_000
"""Loads, waits or losses of a first step, and of another one. If there are more, the program makes
no steps that are seen, or no more of them: those so far are forgotten, as they would take ever more
memory."""
Spans = list[tuple[Point, Point]]


@dataclass
class Step:
    """What a rank's event `StepFinished` tells, by the names of its fields. `loss` is None if it is
    unknown, as of a backward pass of several losses."""

    step: int
    time: float
    loss: float | None
    samples: int
    seconds: float
    data: float
    compute: float
    sync: float
    ready: float
    cpu_seconds: float


@dataclass
class StepSoFar:
    """One step so far. `gradient` is when the last local gradient was there, and `waits_before` how
    many waits had ended by then. `losses` are numbers, or tensors that a GPU fills."""

    start: Point
    loads: Spans = field(default_factory=list)
    waits: Spans = field(default_factory=list)
    pauses: Spans = field(default_factory=list)
    losses: list[Any] = field(default_factory=list)
    samples: int = 0
    gradient: Point | None = None
    waits_before: int = 0
    end: Point = 0.0
    when: float = 0.0
    cpu: float = 0.0

    def note_gradient(self, now: Point) -> None:
        """Note that the last gradient so far is there."""
        self.gradient = now
        self.waits_before = len(self.waits)

    def has_passed(self) -> bool:
        """Return True if all points can be read. They were set in order, but for the gradient's."""
        return has_passed(self.end) and (self.gradient is None or has_passed(self.gradient))

    def phases(self) -> dict[str, float]:
        """Return the seconds of the step and of its phases, by their fields in `StepFinished`:
        `data` + `compute` + `sync` = `seconds`; `ready` and `cpu_seconds` overlap with them."""
        wait_seconds = [seconds_between(*wait) for wait in self.waits]
        paused_seconds = _total_seconds(self.pauses)
        data = _total_seconds(self.loads)
        sync = sum(wait_seconds)
        seconds = seconds_between(self.start, self.end) - paused_seconds
        ready = seconds - sync
        if self.gradient is not None:
            seconds_until = seconds_between(self.start, self.gradient)
            ready = seconds_until - paused_seconds - sum(wait_seconds[: self.waits_before])
        return {
            "seconds": max(0.0, seconds),
            "data": data,
            "compute": max(0.0, seconds - data - sync),
            "sync": sync,
            "ready": max(0.0, ready),
            "cpu_seconds": self.cpu,
        }

    def step(self, number: int) -> Step:
        """Return what is told of the step."""
        losses = [float(loss) for loss in self.losses]
        loss = sum(losses) / len(losses) if losses else None
        return Step(number, self.when, loss, self.samples, **self.phases())


def _total_seconds(spans: Spans) -> float:
    return sum(seconds_between(*span) for span in spans)


@dataclass
class StepMark:
    """A moment of a step, with the number of its loads, waits and samples until then."""

    when: Point
    loads: int
    waits: int
    samples: int


@dataclass
class PossibleEvaluation:
    """A time that may turn out to be an evaluation: from one mark until another, if there is one.
    `model` is the one whose `eval()` began it, if one did."""

    begin: StepMark
    model: weakref.ref[Any] | None
    end: StepMark | None = None


class Steps:
    """The steps of a rank. They are told to `report`, quick ones together; on a GPU a step
    later. `pauses` is the evaluation that may be under way, if there is one."""

    def __init__(
        self,
        report: Callable[[Sequence[Step]], None],
        clock: Clock | None = None,
        gather: float = REPORT_INTERVAL,
    ) -> None:
        self.clock = clock or Clock()
        self._report = report
        self._gather_seconds = gather
        self._reported = 0.0
        self.step_count = 0
        """Steps that have ended."""
        self._unreported: deque[tuple[int, StepSoFar]] = deque()
        self.pauses: list[PossibleEvaluation] = []
        self._shares_gradients = self._has_begun = False
        self._cpu_start = 0.0
        self.lap = StepSoFar(0.0)

    def restart(self) -> None:
        """Forget all steps, and count from 1 again: this is another process."""
        self.step_count = 0
        self._unreported.clear()
        self.pauses.clear()
        self._shares_gradients = self._has_begun = False
        self.lap = StepSoFar(0.0)

    def begin(self) -> None:
        """Begin the first step, if training has not begun: what was before is part of no step."""
        if not self._has_begun:
            self._has_begun = True
            self._cpu_start = time.process_time()
            self.lap = StepSoFar(self.clock.now())
            # An evaluation may be under way: a pretrained model is in `eval()` as it is loaded.
            for pause in self.pauses:
                pause.begin = self._make_mark()

    # Spans: they begin and end in turn; of nested ones only the outermost counts

    def loaded(self, begin: Point, samples: int) -> None:
        """Note that a batch was loaded, from `begin` until now."""
        self.lap.samples += samples
        self._add_entry(self.lap.loads, (begin, self.clock.now()))

    def waited(self, begin: Point) -> None:
        """Note that the rank waited for others, from `begin` until now."""
        self._add_entry(self.lap.waits, (begin, self.clock.now()))

    def backward(self) -> None:
        """Note that a backward pass begins."""
        self._shares_gradients = False

    def gradient(self) -> None:
        """Note that a gradient is there. If it is the last one of the pass, all that follows in it
        is a wait for those of other ranks."""
        self._shares_gradients = True
        self.lap.note_gradient(self.clock.now())

    def backward_ended(self) -> bool:
        """Note that a backward pass has ended. Return True if its gradients were noted."""
        lap = self.lap
        now = self.clock.now()
        if self._shares_gradients:
            lap.waits[lap.waits_before :] = [(lap.gradient, now)]
        else:
            lap.note_gradient(now)
        return self._shares_gradients

    def lost(self, loss: Any) -> None:
        """Note the loss of a backward pass: a number, or a tensor that becomes one."""
        self._add_entry(self.lap.losses, loss)

    def _add_entry(self, entries: list[Any], entry: Any) -> None:
        """Add to the lap."""
        entries.append(entry)
        if len(entries) > (ENDLESS if self.step_count else MOST):
            self.lap = StepSoFar(self.clock.now())
            self.pauses.clear()
            self._shares_gradients = False

    # Evaluations

    def pause(self, model: Any = None) -> None:
        """Note that an evaluation of this model may begin here, unless gradients wait for their
        step."""
        if not self.pauses and self.lap.gradient is None:
            model_ref = None if model is None else weakref.ref(model)
            self.pauses.append(PossibleEvaluation(self._make_mark(), model_ref))

    def may_resume(self) -> None:
        """Note that an evaluation that is under way may have ended here."""
        for pause in self.pauses:
            pause.end = self._make_mark()

    def loads_ended(self) -> None:
        """Note that there are no more batches: an evaluation that no `eval()` began may have ended
        here."""
        if self.pauses and self.pauses[0].model is None:
            self.may_resume()

    def trains(self, model: Any) -> None:
        """End the evaluation that this model's `eval()` began, as it trains again."""
        model_ref = self.pauses[0].model if self.pauses else None
        if model_ref and model_ref() is model:
            self.may_resume()
            self.resume()

    def resume(self) -> None:
        """Go on with training. If an evaluation may have ended before, its time is part of no
        step."""
        pause = self.pauses.pop() if self.pauses else None
        if pause and pause.end:
            begin = pause.begin
            end = pause.end
            lap = self.lap
            lap.pauses.append((begin.when, end.when))
            # What was loaded and waited for meanwhile belongs to the evaluation.
            del lap.loads[begin.loads : end.loads]
            del lap.waits[begin.waits : end.waits]
            lap.samples -= end.samples - begin.samples

    def _make_mark(self) -> StepMark:
        lap = self.lap
        return StepMark(self.clock.now(), len(lap.loads), len(lap.waits), lap.samples)

    # Steps

    def end(self) -> None:
        """End the step."""
        self.begin()
        ended_step = self.lap
        ended_step.end, ended_step.when = self.clock.now(), time.time()
        cpu_now = time.process_time()
        ended_step.cpu = cpu_now - self._cpu_start
        self._cpu_start = cpu_now
        self.step_count += 1
        self._unreported.append((self.step_count, ended_step))
        self.pauses.clear()
        self.lap = StepSoFar(self.clock.next_step(ended_step.end))
        self.flush()

    def flush(self) -> None:
        """Report what has passed, unless that was done just now."""
        if self._unreported and time.monotonic() - self._reported >= self._gather_seconds:
            self.report()

    def report(self) -> None:
        """Report what has passed."""
        if self.clock.is_capturing():
            return
        self._reported = time.monotonic()
        passed_steps = []
        while self._unreported and self._unreported[0][1].has_passed():
            number, lap = self._unreported.popleft()
            passed_steps.append(lap.step(number))
        if passed_steps:
            self._report(passed_steps)
        while len(self._unreported) > MOST_BEHIND:
            self._unreported.popleft()
