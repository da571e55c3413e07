"""The training loop of one rank, to be read from top to bottom. It knows no method, model or data
set by name."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import distributed
from torch.nn.functional import cross_entropy

from training import drift, models, registry
from training.batch_norm.layers import BatchNorm
from training.checkpoint.resume import resume
from training.checkpoint.save import Checkpoints, Parts
from training.compute import Compute
from training.datasets import Images
from training.evaluate import CONFUSION_CLASSES, evaluate
from training.job import Job, JobError
from training.meter import Meter
from training.place import Place
from training.progress import Iteration, Progress, say
from training.rendezvous import PATIENCE, new_group
from training.shard import Group, shard
from training.sync import SyncMethod, broadcast
from training.wire.enums import Phase
from training.wire.events import Drifted, Entered, Evaluated, Finished, Saved, Started, emit


class Trainer:
    """One rank of a job: made once it has met the others, it says by events what it does. `step`
    counts the steps made.

    Raises: JobError, where there are more ranks than samples in a batch, all of the model is
    frozen, or what to compile or resume cannot be used.
    """

    def __init__(
        self, job: Job, place: Place, device: torch.device, train_set: Images, test_set: Images
    ) -> None:
        self.job, self.place, self.device, self.train_set, self.test_set = (
            job,
            place,
            device,
            train_set,
            test_set,
        )
        self.drifted = False
        self.meter = Meter(device)
        self.compute = Compute(job, device)

        wire = {"fp32": torch.float32, "bf16": torch.bfloat16}[job.precision]
        self.method: SyncMethod = registry.load("sync", job.sync).Method(job.sync_options(), wire)
        self.traits = job.traits()
        trainers = job.trainers(place.world_size)
        self.trains = place.rank in trainers
        index = trainers.index(place.rank) if self.trains else 0
        self.shard = shard(job, train_set.labels, index, len(trainers))
        self.steps = job.steps or (job.epochs or 1) * self.shard.steps
        self.progress = Progress(place.rank, job, self.steps, self.shard.steps)

        torch.manual_seed(job.seed)
        self.batch_norm = BatchNorm(
            job.batch_norm, place, self.meter, trainers, self.traits.settles
        )
        net = self.batch_norm.convert(models.build(job.model, train_set.shape, train_set.classes))
        self.net = self.compute.lay_out(net)
        if place.world_size > 1:
            broadcast([*self.net.parameters(), *self.net.buffers()], self.meter)
            torch.manual_seed(
                job.seed + place.rank
            )  # or all ranks would drop the same units of their samples
        if not any(parameter.requires_grad for parameter in self.net.parameters()):
            raise JobError(
                f"--model {job.model}: no parameter needs a gradient (all are frozen): there is "
                "nothing to train"
            )
        self.optimizer = self.compute.optimizer(self.net)
        parts = Parts(
            self.net,
            self.optimizer,
            self.method,
            self.traits,
            self.batch_norm,
            device,
            train_set.names,
        )
        self.checkpoints = (
            Checkpoints(job, place, parts, self.shard.steps)
            if job.checkpoint_every or job.resume
            else None
        )
        self.resumed = resume(self.checkpoints) if self.checkpoints and job.resume else None
        self.step = self.resumed.step if self.resumed else 0
        self.meter.watch(self.net)
        self.model = self.method.prepare(
            self.compute.compiled(self.net), self.optimizer, place, self.meter
        )
        if self.resumed:
            self.resumed.finish(self.method)

    @property
    def epoch(self) -> int:
        """The epoch, from 1 on, to which the last step belongs."""
        return max(0, self.step - 1) // self.shard.steps + 1

    def train(self) -> None:
        """All steps, with an evaluation at the end of each epoch and of the run. Raises:
        CheckpointError."""
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
        late = (
            1 if self.device.type == "cuda" else 0
        )  # a GPU's figures are read one step late: nobody waits for them
        made: deque[Iteration] = deque()
        self.meter.start()
        for group in self.shard.groups(epoch, first):
            figures = self.iterate(group)
            self.step += 1
            made.append(Iteration(self.step, group.samples, figures, self.meter.lap()))
            if len(made) > late:
                self.report(made.popleft())
            if self.meets(self.step):
                self.meet()
            if self.step == self.steps:
                break
        while made:
            self.report(made.popleft())
        self.progress.report_epoch(self.epoch, self.step)

    def serve_epoch(self) -> None:
        """What a rank does instead that holds the parameters for the others."""
        emit(Entered(self.place.rank, Phase.SERVING))
        end = min((self.step // self.shard.steps + 1) * self.shard.steps, self.steps)
        while self.step < end:
            stop = next(
                step for step in range(self.step + 1, end + 1) if step == end or self.meets(step)
            )
            self.method.serve(self.net, self.optimizer, stop - self.step)
            self.step = stop
            if self.meets(stop):
                self.meet()

    def iterate(self, group: Group) -> torch.Tensor:
        """One step on a group of batches: its figures, as in `Iteration`.

        Losses are scaled by ranks per sample of the group: the mean over ranks of the scaled
        losses' gradients is the joined group's gradient, however unevenly it is split.
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
        return self.place.world_size > 1 and self.traits.exact and step % self.job.log_every == 0

    def saves(self, step: int) -> bool:
        """Whether there is a checkpoint after this step; at the end of an epoch it comes after the
        evaluation."""
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
        """Saves the model that the ranks settle on, and all else that is needed to go on from
        here."""
        assert self.checkpoints
        rank, began = self.place.rank, time.perf_counter()
        emit(Entered(rank, Phase.SAVING))
        self.settle()
        size = self.checkpoints.save(self.step)
        seconds = time.perf_counter() - began
        emit(Saved(rank, self.epoch, self.step, seconds, size))
        if rank == 0:
            say(
                f"Checkpoint: step {self.step}, {size / 1e6:.1f} MB in {seconds:.3f} seconds, "
                f"{self.checkpoints.folder}"
            )
        if self.step < self.steps:
            emit(Entered(rank, Phase.TRAINING if self.trains else Phase.SERVING))

    def compare(self) -> None:
        """Says so if the ranks' models differ, which the method keeps equal."""
        difference = drift.difference(self.net.parameters(), self.place.world_size)
        if self.place.rank == 0 and difference > drift.LIMIT:
            emit(drifted := Drifted(0, self.step, difference))
            if not self.drifted:
                say(f"Warning: after step {self.step} the ranks' models differ {drifted.extent}")
            self.drifted = True

    def report(self, made: Iteration) -> None:
        """Says what a step was."""
        self.progress.report(made)

    def settle(self) -> None:
        """One model on all ranks."""
        self.method.settle(self.net)
        if not self.traits.exact:
            self.wait_for_slowest()
        self.batch_norm.settle(self.net)

    def evaluate(self) -> None:
        """Tests the model that the ranks settle on."""
        rank = self.place.rank
        emit(Entered(rank, Phase.EVALUATING))
        self.settle()
        own = self.own_accuracy()
        with self.batch_norm.agreed(self.net):
            found = evaluate(
                self.net,
                self.test_set,
                self.place,
                self.device,
                self.compute.logits,
                self.patient_group,
            )
        figures = (found.loss, found.accuracy, found.samples, found.seconds)
        confusion, classes = (
            (found.confusion, self.test_set.names) if rank == 0 and found.confusion else ((), ())
        )
        emit(Evaluated(rank, self.epoch, self.step, *figures, confusion, own, classes))
        if rank == 0:
            self.progress.report_test(found.loss, found.accuracy, self.epoch)
        if self.step < self.steps:
            emit(Entered(rank, Phase.TRAINING if self.trains else Phase.SERVING))

    def wait_for_slowest(self) -> None:
        """Returns when all ranks have come, each of which was free to go at its own pace."""
        if self.place.world_size > 1:
            met = torch.zeros(1, device=self.device)
            distributed.all_reduce(met, group=self.patient_group)
            met.item()  # which alone waits on a GPU

    @cached_property
    def patient_group(self) -> distributed.ProcessGroup | None:
        """The group in which ranks wait where there was no traffic to keep a slow host in step, as
        in evaluations."""
        return new_group(timeout=PATIENCE) if self.place.world_size > 1 else None

    def own_accuracy(self) -> float:
        """The accuracy on the whole test set by what this rank keeps for itself; -1 where that is
        nothing."""
        if not self.batch_norm.own(self.net):
            return -1.0
        alone = Place()  # also a rank that does not tell: the others take as long
        accuracy = evaluate(
            self.net, self.test_set, alone, self.device, self.compute.logits
        ).accuracy
        self.wait_for_slowest()
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
        yield from dict.fromkeys(
            (*self.train_set.remarks, *self.test_set.remarks, *self.shard.remarks())
        )
        if self.test_set.classes > CONFUSION_CLASSES:
            many = f"{self.test_set.classes} classes"
            yield (
                f"{many}: no report of each, nor a confusion matrix, which are made for up to "
                f"{CONFUSION_CLASSES}"
            )
        if self.place.world_size > 1 and not self.traits.exact:
            settling = "between two times when they settle on one"
            apart = (
                "for good: rank 0's is tested and saved, and each rank's own accuracy is told "
                "beside it"
            )
            yield (
                f"--sync {self.job.sync}: the ranks' models differ "
                f"{settling if self.traits.settles else apart}"
            )
            if self.job.batch_norm == "sync":
                yield (
                    "--batch-norm sync: the ranks wait for each other in every BatchNorm, "
                    "whatever --sync leaves them"
                )
