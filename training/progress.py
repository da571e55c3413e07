"""What a rank reports of its steps: an event for each, now and then a line to read, and the totals
of an epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from torch import Tensor

from training.formatting import format_loss
from training.job import Job
from training.meter import StepTimes
from training.schedule import Schedule
from training.wire.events import Epoch, StepFinished, emit


@dataclass(frozen=True)
class CompletedStep:
    """One step. `figures` (2,) float64: the sum of the losses and the number of correct samples;
    on a GPU they may not have arrived yet."""

    step: int
    samples: int
    figures: Tensor
    lap: StepTimes


@dataclass
class EpochSums:
    """The totals of an epoch so far, on this rank; after a resume, since the resume."""

    loss: float = 0.0
    correct: int = 0
    samples: int = 0
    seconds: float = 0.0
    steps: int = 0

    def add(self, loss: float, step: StepFinished) -> None:
        """Add a step, with the sum of its losses."""
        self.loss += loss
        self.correct += step.correct
        self.samples += step.samples
        self.seconds += step.seconds
        self.steps += 1


class Progress:
    """Reports the steps of one rank. Prints a line for every `log_every`-th step of the run, for
    the first, and for every epoch."""

    def __init__(self, rank: int, job: Job, schedule: Schedule) -> None:
        self._rank = rank
        self._schedule = schedule
        self._log_every = job.log_every
        self._as_reference = job.log_format == "reference"
        self._sums = EpochSums()

    def report(self, made: CompletedStep) -> None:
        """Report a step. On a GPU this waits until its figures have arrived."""
        phases = made.lap.phases()
        loss, correct = made.figures.tolist()
        epoch, batch = divmod(made.step - 1, self._schedule.steps_per_epoch)
        step = StepFinished(
            rank=self._rank,
            epoch=epoch + 1,
            step=made.step,
            loss=loss / made.samples,
            samples=made.samples,
            correct=int(correct),
            **phases.asdict(),
            **made.lap.figures,
        )
        self._sums.add(loss, step)
        emit(step)
        if self._as_reference:
            # The reference counts batches from 0 in each epoch.
            if batch % self._log_every == 0:
                print_line(self._reference_step(step, batch))
        elif made.step == 1 or made.step % self._log_every == 0:
            print_line(self._step(step))

    def report_epoch(self, epoch: int, step: int) -> None:
        """Report the totals of an epoch, whose last step was `step`."""
        sums = self._sums
        self._sums = EpochSums()
        loss = sums.loss / sums.samples
        accuracy = sums.correct / sums.samples
        done = Epoch(self._rank, epoch, step, loss, accuracy, sums.samples, sums.seconds)
        emit(done)
        pace = sums.seconds / sums.steps
        print_line(
            self._reference_epoch(done, pace) if self._as_reference else self._epoch(done, pace)
        )

    def report_test(self, loss: float, accuracy: float, epoch: int) -> None:
        """Print the result of an evaluation."""
        if self._as_reference:
            print_line(f"Test Loss: {loss:.3f}, Test Accuracy: {accuracy:.3f}")
        else:
            print_line(f"epoch {epoch} test loss {format_loss(loss)} acc {accuracy:.4f}")

    def _step(self, step: StepFinished) -> str:
        head = f"epoch {step.epoch} step {step.step}/{self._schedule.steps}"
        accuracy = step.correct / step.samples
        return f"{head} loss {format_loss(step.loss)} acc {accuracy:.2f} {step.seconds:.3f} s/iter"

    def _epoch(self, epoch: Epoch, pace: float) -> str:
        result = f"mean loss {format_loss(epoch.loss)} acc {epoch.accuracy:.2f}"
        return f"epoch {epoch.epoch} done: {result} {pace:.3f} s/iter, {epoch.seconds:.2f} s"

    def _reference_step(self, step: StepFinished, batch: int) -> str:
        accuracy = step.correct / step.samples
        return (
            f"Rank: {self._rank} Batch Idx: {batch}, Batch Loss: {step.loss:.3f}, "
            f"Batch Accuracy: {accuracy:.3f}, Batch Duration: {step.seconds:.3f} seconds"
        )

    def _reference_epoch(self, epoch: Epoch, pace: float) -> str:
        return (
            f"Rank: {self._rank} Epoch: {epoch.epoch}, Train Loss: {epoch.loss:.3f}, "
            f"Train Accuracy: {epoch.accuracy:.3f}, Avg Batch Duration: {pace:.3f} seconds, "
            f"Epoch Duration: {epoch.seconds:.3f} seconds"
        )


def print_line(line: str) -> None:
    """Print a line to read, on stdout between the events."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
