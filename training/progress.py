"""What a rank says of its steps: an event of each, at times a line to read, and the sums of an epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from training.events import Epoch, Step, emit
from training.meter import Lap


@dataclass(frozen=True)
class Iteration:
    """One step that was made. `figures` (2,) float64, perhaps still to come from a GPU: sum of losses, how many right."""

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
    """One rank's. `steps` are an epoch's; every `log_every` of them there is a line to read."""

    def __init__(self, rank: int, steps: int, log_every: int) -> None:
        self._rank, self._steps, self._log_every = rank, steps, log_every
        self._sums = Sums()

    def report(self, made: Iteration) -> None:
        """Says what a step was."""
        phases = made.lap.phases()  # first: on a GPU this waits for the figures
        total, correct = made.figures.tolist()
        loss, right = total / made.samples, int(correct)
        sums = self._sums
        sums.loss, sums.correct, sums.samples = sums.loss + total, sums.correct + right, sums.samples + made.samples
        sums.seconds, sums.steps = sums.seconds + phases.seconds, sums.steps + 1
        epoch, batch = divmod(made.step - 1, self._steps)
        emit(
            Step(
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
        )
        if batch % self._log_every == 0:
            figures = f"Batch Loss: {loss:.3f}, Batch Accuracy: {right / made.samples:.3f}"
            say(f"Rank: {self._rank} Batch Idx: {batch}, {figures}, Batch Duration: {phases.seconds:.3f} seconds")

    def report_epoch(self, epoch: int, step: int) -> None:
        """Says what the steps of an epoch were, of which that step was the last."""
        sums, self._sums = self._sums, Sums()
        loss, accuracy = sums.loss / sums.samples, sums.correct / sums.samples
        emit(Epoch(self._rank, epoch, step, loss, accuracy, sums.samples, sums.seconds))
        figures = f"Train Loss: {loss:.3f}, Train Accuracy: {accuracy:.3f}, Avg Batch Duration: {sums.seconds / sums.steps:.3f}"
        say(f"Rank: {self._rank} Epoch: {epoch}, {figures} seconds, Epoch Duration: {sums.seconds:.3f} seconds")


def say(line: str) -> None:
    """A line to read, on stdout between the events."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
