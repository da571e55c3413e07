"""The training loop of one rank, to be read from top to bottom. It knows no method, model or data set by name."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import distributed
from torch.nn.functional import cross_entropy

from training import models, registry
from training.batch_norm import BatchNorm
from training.checkpoint import Checkpoints, Parts
from training.compute import Compute
from training.datasets import Images
from training.evaluate import evaluate
from training.events import Drifted, Entered, Epoch, Evaluated, Finished, Saved, Started, Step, emit
from training.job import Job
from training.meter import Lap, Meter
from training.place import Place
from training.resume import resume
from training.shard import Group, shard
from training.sync import SyncMethod, broadcast

DRIFT = 1e-6
"""The relative difference of the ranks' parameters from which on their models have drifted apart."""


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


class Trainer:
    """One rank of a job: made once it has met the others, it says by events what it does. `step` counts the steps made.

    Raises: JobError, where there are more ranks than samples in a batch, or what to compile or resume cannot be used.
    """

    def __init__(self, job: Job, place: Place, device: torch.device, train_set: Images, test_set: Images) -> None:
        self.job, self.place, self.device, self.train_set, self.test_set = job, place, device, train_set, test_set
        self.sums = Sums()
        self.drifted = False
        self.meter = Meter(device)
        self.compute = Compute(job, device)

        wire = {"fp32": torch.float32, "bf16": torch.bfloat16}[job.precision]
        self.method: SyncMethod = registry.load("sync", job.sync).Method(job.sync_options(), wire)
        trainers = [rank for rank in range(place.world_size) if self.method.trains(rank)]
        self.trains = place.rank in trainers
        index = trainers.index(place.rank) if self.trains else 0
        self.shard = shard(job, train_set.labels, index, len(trainers))
        self.steps = job.steps or (job.epochs or 1) * self.shard.steps

        torch.manual_seed(job.seed)
        self.batch_norm = BatchNorm(job.batch_norm, place, self.meter, trainers)
        net = self.batch_norm.convert(models.build(job.model, train_set.shape, train_set.classes))
        self.net = self.compute.lay_out(net)
        if place.world_size > 1:
            broadcast([*self.net.parameters(), *self.net.buffers()], self.meter)
        self.optimizer = self.compute.optimizer(self.net)
        parts = Parts(self.net, self.optimizer, self.method, self.batch_norm, device)
        self.checkpoints = Checkpoints(job, place, parts, self.shard.steps) if job.checkpoint_every or job.resume else None
        self.resumed = resume(self.checkpoints) if self.checkpoints and job.resume else None
        self.step = self.resumed.step if self.resumed else 0
        self.meter.watch(self.net)
        self.model = self.method.prepare(self.compute.compiled(self.net), self.optimizer, place, self.meter)
        if self.resumed:
            self.resumed.finish(self.method)

    @property
    def epoch(self) -> int:
        """The epoch, from 1 on, to which the last step belongs."""
        return max(0, self.step - 1) // self.shard.steps + 1

    def train(self) -> None:
        """All steps, with an evaluation at the end of each epoch and of the run. Raises: CheckpointError."""
        began = time.perf_counter()
        if self.step >= self.steps:  # a checkpoint has them all
            self.evaluate()
        while self.step < self.steps:
            if self.trains:
                self.train_epoch()
            else:
                self.serve_epoch()
            self.evaluate()
            if self.saves(self.step):
                self.save()
        emit(Finished(self.place.rank, self.epoch, self.step, time.perf_counter() - began))

    def train_epoch(self) -> None:
        """The steps to the end of the epoch, or of the run."""
        epoch, first = self.step // self.shard.steps + 1, self.step % self.shard.steps
        late = 1 if self.device.type == "cuda" else 0  # a GPU's figures are read one step late: nobody waits for them
        made: deque[Iteration] = deque()
        self.meter.start()
        for group in self.shard.groups(epoch, first):
            figures = self.iterate(group)
            self.step += 1
            made.append(Iteration(self.step, group.samples, figures, self.meter.lap(), self.method.staleness))
            if len(made) > late:
                self.report(made.popleft())
            if self.meets(self.step):
                self.meet()
            if self.step == self.steps:
                break
        while made:
            self.report(made.popleft())
        self.report_epoch()

    def serve_epoch(self) -> None:
        """What a rank does instead that holds the parameters for the others."""
        emit(Entered(self.place.rank, "serving"))
        end = min((self.step // self.shard.steps + 1) * self.shard.steps, self.steps)
        while self.step < end:
            stop = next(step for step in range(self.step + 1, end + 1) if step == end or self.meets(step))
            self.method.serve(self.net, self.optimizer, stop - self.step)
            self.step = stop
            if self.meets(stop):
                self.meet()

    def iterate(self, group: Group) -> torch.Tensor:
        """One step on a group of batches: its figures, as in `Iteration`.

        Losses are scaled by ranks per sample of the group: the mean over ranks of the scaled losses' gradients is the joined
        group's gradient, however unevenly it is split.
        """
        figures = torch.zeros(2, dtype=torch.float64, device=self.device)
        scale = self.shard.world_size / group.size
        self.optimizer.zero_grad()
        for number, indices in enumerate(group.shares, 1):
            with self.meter.loading():
                pixels, labels = self.train_set.batch(indices, self.device)
            with self.method.micro(last=number == len(group.shares)):
                logits = self.compute.logits(self.model, pixels)
                loss = cross_entropy(logits, labels, reduction="sum")
                (loss * scale).backward()  # type: ignore[no-untyped-call]
            correct = (logits.argmax(1) == labels).sum()
            figures += torch.stack((loss.detach().double(), correct.double()))
        self.method.reduce(self.net)
        self.method.step(self.optimizer)
        return figures.to("cpu", non_blocking=True)

    def meets(self, step: int) -> bool:
        """Whether all ranks meet after this step, outside its time."""
        return self.compares(step) or (self.saves(step) and not self.ends_epoch(step))

    def compares(self, step: int) -> bool:
        """Whether the ranks compare their models after this step."""
        return self.place.world_size > 1 and self.method.exact and step % self.job.log_every == 0

    def saves(self, step: int) -> bool:
        """Whether there is a checkpoint after this step; at the end of an epoch it comes after the evaluation."""
        return self.checkpoints is not None and self.checkpoints.due(step, self.steps)

    def ends_epoch(self, step: int) -> bool:
        """Whether this step is the last of its epoch, or of the run."""
        return step == self.steps or step % self.shard.steps == 0

    def meet(self) -> None:
        """What all ranks do together between two steps."""
        if self.compares(self.step):
            self.compare()
        if self.saves(self.step) and not self.ends_epoch(self.step):
            self.save()
        self.meter.start()

    def save(self) -> None:
        """Saves the model that the ranks settle on, and all else that is needed to go on from here."""
        assert self.checkpoints
        rank, began = self.place.rank, time.perf_counter()
        emit(Entered(rank, "saving"))
        self.settle()
        size = self.checkpoints.save(self.step)
        seconds = time.perf_counter() - began
        emit(Saved(rank, self.epoch, self.step, seconds, size))
        if rank == 0:
            say(f"Checkpoint: step {self.step}, {size / 1e6:.1f} MB in {seconds:.3f} seconds, {self.checkpoints.folder}")
        if self.step < self.steps:
            emit(Entered(rank, "training" if self.trains else "serving"))

    def compare(self) -> None:
        """Says so if the ranks' models differ, which the method keeps equal."""
        parameters = [p.detach().double() for p in self.net.parameters()]
        own = torch.stack((sum_of(p.sum() for p in parameters), sum_of(p.square().sum() for p in parameters).sqrt()))
        all_of = [torch.empty_like(own) for _ in range(self.place.world_size)]
        distributed.all_gather(all_of, own)
        figures = torch.stack(all_of)
        spread = figures.amax(0) - figures.amin(0)
        difference = (spread / figures[0, 1].clamp(min=1e-30)).max().item()  # relative to the parameters' L2 norm
        if self.place.rank == 0 and not difference <= DRIFT:
            emit(Drifted(0, self.step, difference))
            if not self.drifted:
                say(f"Warning: after step {self.step} the ranks' models differ by {difference:.1e}, relatively")
            self.drifted = True

    def report(self, made: Iteration) -> None:
        """Says what a step was: an event, and at times a line to read."""
        phases = made.lap.phases()  # first: on a GPU this waits for the figures
        total, correct = made.figures.tolist()
        loss = total / made.samples
        sums = self.sums
        sums.loss, sums.correct, sums.samples = sums.loss + total, sums.correct + int(correct), sums.samples + made.samples
        sums.seconds, sums.steps = sums.seconds + phases.seconds, sums.steps + 1
        emit(
            Step(
                self.place.rank,
                (made.step - 1) // self.shard.steps + 1,
                made.step,
                loss,
                **phases.asdict(),
                samples=made.samples,
                correct=int(correct),
                bytes_sent=made.lap.bytes_sent,
                staleness=made.staleness,
            )
        )
        batch = (made.step - 1) % self.shard.steps
        if batch % self.job.log_every == 0:
            figures = f"Batch Loss: {loss:.3f}, Batch Accuracy: {correct / made.samples:.3f}"
            say(f"Rank: {self.place.rank} Batch Idx: {batch}, {figures}, Batch Duration: {phases.seconds:.3f} seconds")

    def report_epoch(self) -> None:
        """Says what the epoch's steps were, on this rank."""
        sums, self.sums = self.sums, Sums()
        loss, accuracy = sums.loss / sums.samples, sums.correct / sums.samples
        emit(Epoch(self.place.rank, self.epoch, self.step, loss, accuracy, sums.samples, sums.seconds))
        figures = f"Train Loss: {loss:.3f}, Train Accuracy: {accuracy:.3f}, Avg Batch Duration: {sums.seconds / sums.steps:.3f}"
        say(f"Rank: {self.place.rank} Epoch: {self.epoch}, {figures} seconds, Epoch Duration: {sums.seconds:.3f} seconds")

    def settle(self) -> None:
        """One model on all ranks."""
        self.method.settle(self.net)
        self.batch_norm.settle(self.net)

    def evaluate(self) -> None:
        """Tests the model that the ranks settle on."""
        rank = self.place.rank
        emit(Entered(rank, "evaluating"))
        self.settle()
        own = self.own_accuracy()
        with self.batch_norm.agreed(self.net):
            found = evaluate(self.net, self.test_set, self.place, self.device, self.compute.logits)
        figures = (found.loss, found.accuracy, found.samples, found.seconds, found.confusion if rank == 0 else ())
        emit(Evaluated(rank, self.epoch, self.step, *figures, own_accuracy=own))
        if rank == 0:
            say(f"Test Loss: {found.loss:.3f}, Test Accuracy: {found.accuracy:.3f}")
        if self.step < self.steps:
            emit(Entered(rank, "training" if self.trains else "serving"))

    def own_accuracy(self) -> float:
        """The accuracy on the whole test set by this rank's own BatchNorm statistics; -1 where it keeps none."""
        if not self.batch_norm.own(self.net):
            return -1.0
        alone = Place()  # also a rank that does not tell: the others take as long
        accuracy = evaluate(self.net, self.test_set, alone, self.device, self.compute.logits).accuracy
        return accuracy if self.trains else -1.0

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
            self.shard.steps,
            len(self.train_set),
            len(self.test_set),
            self.step,
        )

    def remarks(self) -> Iterator[str]:
        """What a reader of the figures should know about how the work is split."""
        yield from self.resumed.remarks if self.resumed else ()
        yield from dict.fromkeys((*self.train_set.remarks, *self.test_set.remarks, *self.shard.remarks()))
        if self.place.world_size > 1 and not self.method.exact:
            yield f"--sync {self.job.sync}: the ranks' models differ between two times when they settle on one"


def sum_of(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    """The sum of scalars of one device."""
    return torch.stack(list(tensors)).sum()


def say(line: str) -> None:
    """A line to read, on stdout between the events."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
