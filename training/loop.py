"""The training loop of one rank, to be read from top to bottom. It knows no method, model or data set by name."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy

from training import registry, shard
from training.datasets import Images
from training.evaluate import evaluate
from training.events import Entered, Evaluated, Finished, Started, Step, emit
from training.job import Job
from training.meter import Lap, Meter
from training.place import Place
from training.sync import SyncMethod


@dataclass(frozen=True)
class Iteration:
    """One step that was made. `figures` (2,) float64: mean loss and how many were right, perhaps still to come from a GPU."""

    epoch: int
    step: int
    samples: int
    figures: torch.Tensor
    lap: Lap


class Trainer:
    """One rank of a job: made once it has met the others, it says by events what it does.

    Raises: JobError, where there are more ranks than samples in a batch.
    """

    def __init__(self, job: Job, place: Place, device: torch.device, train_set: Images, test_set: Images) -> None:
        self.job, self.place, self.device, self.train_set, self.test_set = job, place, device, train_set, test_set
        self.steps_per_epoch = shard.steps_per_epoch(len(train_set), job.batch_size, place.world_size)
        self.steps = job.steps or (job.epochs or 1) * self.steps_per_epoch

        torch.manual_seed(job.seed)
        self.net = registry.load("models", job.model).build(train_set.channels, train_set.classes).to(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), job.lr, job.momentum, weight_decay=job.weight_decay)
        self.method: SyncMethod = registry.load("sync", job.sync).Method()
        self.meter = Meter(device)
        self.meter.watch(self.net)
        self.model = self.method.prepare(self.net, self.optimizer, place, self.meter)

    def train(self) -> None:
        """All steps, with an evaluation at the end of each epoch and of the run."""
        job, rank, world_size = self.job, self.place.rank, self.place.world_size
        began = time.perf_counter()
        made: deque[Iteration] = deque()
        late = 1 if self.device.type == "cuda" else 0  # a GPU's figures are read one step late: nobody waits for them
        step = epoch = 0
        while step < self.steps:
            epoch += 1
            self.meter.start()
            for batch in shard.global_batches(len(self.train_set), job.batch_size, world_size, job.seed, epoch):
                step += 1
                indices = shard.share(batch, rank, world_size)
                figures = self.iterate(indices, world_size / len(batch))
                made.append(Iteration(epoch, step, len(indices), figures, self.meter.lap()))
                if len(made) > late:
                    self.report(made.popleft())
                if step == self.steps:
                    break
            while made:
                self.report(made.popleft())
            self.evaluate(epoch, step)
        emit(Finished(rank, epoch, step, time.perf_counter() - began))

    def iterate(self, indices: torch.Tensor, scale: float) -> torch.Tensor:
        """One step on the samples at `indices`: its figures, as in `Iteration`.

        `scale` is ranks per sample of the global batch: the mean over ranks of the scaled losses' gradients is the joined
        batch's gradient, however unevenly it is split.
        """
        pixels, labels = self.train_set.batch(indices, self.device)
        self.meter.loaded()
        logits = self.model(pixels)
        loss = cross_entropy(logits, labels, reduction="sum")
        self.optimizer.zero_grad()
        (loss * scale).backward()  # type: ignore[no-untyped-call]
        self.method.reduce(self.net)
        self.method.step(self.optimizer)
        correct = (logits.argmax(1) == labels).sum()
        return torch.stack((loss.detach().double() / len(indices), correct.double())).to("cpu", non_blocking=True)

    def report(self, made: Iteration) -> None:
        """Says what a step was: an event, and at times a line to read."""
        phases = made.lap.phases()  # first: on a GPU this waits for the figures
        loss, correct = made.figures.tolist()
        emit(
            Step(
                self.place.rank,
                made.epoch,
                made.step,
                loss,
                **phases.asdict(),
                samples=made.samples,
                correct=int(correct),
                bytes_sent=made.lap.bytes_sent,
            )
        )
        batch = (made.step - 1) % self.steps_per_epoch
        if batch % self.job.log_every == 0:
            figures = f"Batch Loss: {loss:.3f}, Batch Accuracy: {correct / made.samples:.3f}"
            say(f"Rank: {self.place.rank} Batch Idx: {batch}, {figures}, Batch Duration: {phases.seconds:.3f} seconds")

    def evaluate(self, epoch: int, step: int) -> None:
        """Tests the model that the ranks settle on."""
        rank = self.place.rank
        emit(Entered(rank, "evaluating"))
        self.method.settle(self.net)
        found = evaluate(self.net, self.test_set, self.place, self.device)
        emit(Evaluated(rank, epoch, step, found.loss, found.accuracy, found.samples, found.seconds))
        if rank == 0:
            say(f"Test Loss: {found.loss:.3f}, Test Accuracy: {found.accuracy:.3f}")
        if step < self.steps:
            emit(Entered(rank, "training"))

    def started(self, backend: str) -> Started:
        """What this rank is about to do."""
        return Started(
            self.place.rank,
            os.getpid(),
            self.place.world_size,
            str(self.device),
            backend,
            torch.__version__,
            torch.get_num_threads(),
            sum(parameter.numel() for parameter in self.net.parameters()),
            self.steps,
            self.steps_per_epoch,
            len(self.train_set),
            len(self.test_set),
        )

    def remarks(self) -> list[str]:
        """What a reader of the figures should know about how the work is split."""
        world_size, samples, batch_size = self.place.world_size, len(self.train_set), self.job.batch_size
        lines = []
        shares = shard.share_sizes(batch_size, world_size)
        if len(set(shares)) > 1:
            lines.append(f"A global batch of {batch_size} is split unevenly over {world_size} ranks: {shares}")
        if dropped := shard.dropped(samples, batch_size, world_size):
            lines.append(f"Each epoch leaves out {dropped} of {samples} samples: fewer than the {world_size} ranks")
        if world_size > 1 and not self.method.exact:
            lines.append(f"--sync {self.job.sync}: the ranks' models differ, and the test figures are over all of them")
        return lines


def say(line: str) -> None:
    """A line to read, on stdout between the events."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
