"""What a rank says of its steps: an event of each, at times a line to read, and the sums of an
epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from training import figures
from training.job import Job
from training.meter import Lap
from training.wire.events import Epoch, Step, emit


@dataclass(frozen=True)
class Iteration:
    """One step that was made. `figures` (2,) float64, perhaps still to come from a GPU: sum of
    losses, how many right."""

    step: int
    samples: int
    figures: torch.Tensor
    lap: Lap
    staleness: int


@dataclass
class Sums:
    """An epoch's steps so far, on this rank: of the one in which it resumed, those since."""

    loss: float = 0.0
    correct: int = 0
    samples: int = 0
    seconds: float = 0.0
    steps: int = 0


class Progress:
    """One rank's: it says what each step was, and in a line to read what every `log_every`-th step
    of the run was, the first, and every epoch. Job and place of the rank; `steps` are the run's,
    `steps_per_epoch` an epoch's."""

    def __init__(self, rank: int, job: Job, steps: int, steps_per_epoch: int) -> None:
        self._rank, self._steps, self._steps_per_epoch = rank, steps, steps_per_epoch
        self._log_every, self._as_reference = job.log_every, job.log_format == "reference"
        self._sums = Sums()

    def report(self, made: Iteration) -> None:
        """Says what a step was."""
        phases = made.lap.phases()  # first: on a GPU this waits for the figures
        total, correct = made.figures.tolist()
        loss, right = total / made.samples, int(correct)
        sums = self._sums
        sums.loss, sums.correct, sums.samples = (
            sums.loss + total,
            sums.correct + right,
            sums.samples + made.samples,
        )
        sums.seconds, sums.steps = sums.seconds + phases.seconds, sums.steps + 1
        epoch, batch = divmod(made.step - 1, self._steps_per_epoch)
        step = Step(
            self._rank,
            epoch + 1,
            made.step,
            loss,
            **phases.asdict(),
            samples=made.samples,
            correct=right,
            bytes_sent=made.lap.bytes_sent,
            staleness=made.staleness,
        )
        emit(step)
        if (
            self._as_reference and batch % self._log_every == 0
        ):  # its index starts anew in each epoch
            say(self._reference_step(step, batch))
        elif not self._as_reference and (made.step == 1 or made.step % self._log_every == 0):
            say(self._step(step))

    def report_epoch(self, epoch: int, step: int) -> None:
        """Says what the steps of an epoch were, of which that step was the last."""
        sums, self._sums = self._sums, Sums()
        loss, accuracy = sums.loss / sums.samples, sums.correct / sums.samples
        emit(said := Epoch(self._rank, epoch, step, loss, accuracy, sums.samples, sums.seconds))
        pace = sums.seconds / sums.steps
        say(self._reference_epoch(said, pace) if self._as_reference else self._epoch(said, pace))

    def report_test(self, loss: float, accuracy: float, epoch: int) -> None:
        """Says what an evaluation found."""
        if self._as_reference:
            say(f"Test Loss: {loss:.3f}, Test Accuracy: {accuracy:.3f}")
        else:
            say(f"epoch {epoch} test loss {figures.loss(loss)} acc {accuracy:.4f}")

    def _step(self, step: Step) -> str:
        of = f"epoch {step.epoch} step {step.step}/{self._steps}"
        accuracy = step.correct / step.samples
        return f"{of} loss {figures.loss(step.loss)} acc {accuracy:.2f} {step.seconds:.3f} s/iter"

    def _epoch(self, said: Epoch, pace: float) -> str:
        found = f"mean loss {figures.loss(said.loss)} acc {said.accuracy:.2f}"
        return f"epoch {said.epoch} done: {found} {pace:.3f} s/iter, {said.seconds:.2f} s"

    def _reference_step(self, step: Step, batch: int) -> str:
        found = f"Batch Loss: {step.loss:.3f}, Batch Accuracy: {step.correct / step.samples:.3f}"
        return (
            f"Rank: {self._rank} Batch Idx: {batch}, {found}, Batch Duration: {step.seconds:.3f} "
            "seconds"
        )

    def _reference_epoch(self, said: Epoch, pace: float) -> str:
        found = f"Train Loss: {said.loss:.3f}, Train Accuracy: {said.accuracy:.3f}"
        took = f"Avg Batch Duration: {pace:.3f} seconds, Epoch Duration: {said.seconds:.3f} seconds"
        return f"Rank: {self._rank} Epoch: {said.epoch}, {found}, {took}"


def say(line: str) -> None:
    """A line to read, on stdout between the events."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
