"""What a rank reports of its steps: an event for each, now and then a line to read, and the totals
of an epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from torch import Tensor

from training.formatting import format_loss
from training.job import Job
from training.meter import MeteredStep
from training.schedule import Schedule
from training.wire.events import emit
from training.wire.rank_events import Epoch, StepFinished


@dataclass(frozen=True)
class CompletedStep:
    """One step. `figures` (2,) float64: the sum of the losses and the number of correct samples;
    on a GPU they may not have arrived yet."""

    step: int
    samples: int
    figures: Tensor
    lap: MeteredStep


@dataclass(frozen=True)
class LineTexts:
    """The lines of a log format, to be filled with `str.format`."""

    step: str
    epoch: str
    test: str


LINES = {
    "short": LineTexts(
        step="epoch {epoch} step {step}/{steps} loss {short_loss} acc {accuracy:.2f} "
        "{seconds:.3f} s/iter",
        epoch="epoch {epoch} done: mean loss {short_loss} acc {accuracy:.2f} {pace:.3f} s/iter, "
        "{seconds:.2f} s",
        test="epoch {epoch} test loss {short_loss} acc {accuracy:.4f}",
    ),
    "reference": LineTexts(
        step="Rank: {rank} Batch Idx: {batch}, Batch Loss: {loss:.3f}, "
        "Batch Accuracy: {accuracy:.3f}, Batch Duration: {seconds:.3f} seconds",
        epoch="Rank: {rank} Epoch: {epoch}, Train Loss: {loss:.3f}, "
        "Train Accuracy: {accuracy:.3f}, Avg Batch Duration: {pace:.3f} seconds, "
        "Epoch Duration: {seconds:.3f} seconds",
        test="Test Loss: {loss:.3f}, Test Accuracy: {accuracy:.3f}",
    ),
}


@dataclass
class EpochSums:
    """The totals of an epoch so far, on this rank; after a resume, since the resume."""

    loss: float = 0.0
    correct: int = 0
    samples: int = 0
    seconds: float = 0.0
    steps: int = 0


class StepReporter:
    """Reports the steps of one rank. Prints a line for every `log_every`-th step of the run, for
    the first, and for every epoch."""

    def __init__(self, rank: int, job: Job, schedule: Schedule) -> None:
        self._rank = rank
        self._schedule = schedule
        self._log_every = job.log_every
        self._is_reference = job.log_format == "reference"
        self._line_texts = LINES[job.log_format]
        self._epoch_sums = EpochSums()

    def report(self, completed: CompletedStep) -> None:
        """Report a step. On a GPU this waits until its figures have arrived."""
        phases = completed.lap.phases()
        seconds = phases["seconds"]
        loss, correct = completed.figures.tolist()
        samples = completed.samples
        step = completed.step
        epoch, batch = divmod(step - 1, self._schedule.steps_per_epoch)
        emit(
            StepFinished(
                rank=self._rank,
                epoch=epoch + 1,
                step=step,
                loss=loss / samples,
                samples=samples,
                correct=int(correct),
                **phases,
                **completed.lap.figures,
            )
        )
        epoch_sums = self._epoch_sums
        epoch_sums.loss += loss
        epoch_sums.correct += int(correct)
        epoch_sums.samples += samples
        epoch_sums.seconds += seconds
        epoch_sums.steps += 1
        # The reference counts batches from 0 in each epoch.
        log_number = batch if self._is_reference else step
        if log_number % self._log_every == 0 or (step == 1 and not self._is_reference):
            line_figures = {"step": step, "steps": self._schedule.steps, "batch": batch}
            self._print_text(
                self._line_texts.step,
                epoch + 1,
                loss / samples,
                correct / samples,
                seconds,
                **line_figures,
            )

    def report_epoch(self, epoch: int, step: int) -> None:
        """Report the totals of an epoch, whose last step was `step`."""
        epoch_sums = self._epoch_sums
        self._epoch_sums = EpochSums()
        loss = epoch_sums.loss / epoch_sums.samples
        accuracy = epoch_sums.correct / epoch_sums.samples
        emit(Epoch(self._rank, epoch, step, loss, accuracy, epoch_sums.samples, epoch_sums.seconds))
        mean_seconds = epoch_sums.seconds / epoch_sums.steps
        self._print_text(
            self._line_texts.epoch, epoch, loss, accuracy, epoch_sums.seconds, pace=mean_seconds
        )

    def report_test(self, loss: float, accuracy: float, epoch: int) -> None:
        """Print the result of an evaluation."""
        self._print_text(self._line_texts.test, epoch, loss, accuracy)

    def _print_text(
        self,
        line_template: str,
        epoch: int,
        loss: float,
        accuracy: float,
        seconds: float = 0.0,
        **figures: float,
    ) -> None:
        log_line = line_template.format(
            rank=self._rank,
            epoch=epoch,
            loss=loss,
            short_loss=format_loss(loss),
            accuracy=accuracy,
            seconds=seconds,
            **figures,
        )
        print_line(log_line)


def print_line(line: str) -> None:
    """Print a line to read, on stdout between the events."""
    # In one piece, as `print` would write the newline by itself.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
