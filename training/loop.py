"""The training loop of one rank, to be read from top to bottom. It knows no method, model or data
set by name."""

from __future__ import annotations

import time
from collections import deque
from functools import cached_property

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup
from torch.nn import Module
from torch.nn.functional import cross_entropy

from training import drift, models, registry
from training.batch_norm.layers import BatchNorm
from training.checkpoint.load import Resumed, load_newest
from training.checkpoint.parts import CheckpointParts
from training.checkpoint.save import Checkpoints
from training.compute import Compute
from training.datasets import Images
from training.evaluate import Evaluation, evaluate
from training.job import Job, JobError
from training.meter import Meter
from training.place import Place
from training.rendezvous import PEER_TIMEOUT, new_group
from training.reports import CompletedStep, StepReporter, print_line
from training.schedule import Schedule
from training.shard import StepSamples, make_shard
from training.sync import SyncMethod, broadcast
from training.wire.enums import Phase
from training.wire.events import emit
from training.wire.rank_events import Drifted, Entered, Evaluated, Finished, Saved

GRADIENT_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
"""The type in which gradients travel, by `--precision`."""


class Trainer:
    """One rank of a job, made once it has met the others. It reports by events what it does. `step`
    counts the steps that are made.

    Raises: JobError, where there are more ranks than samples in a batch, all of the model is
    frozen, or what to compile or resume cannot be used.
    """

    def __init__(
        self, job: Job, place: Place, device: torch.device, train_set: Images, test_set: Images
    ) -> None:
        self.job = job
        self.place = place
        self.rank = place.rank
        self.is_alone = place.world_size == 1
        self.device = device
        self.train_set = train_set
        self.test_set = test_set
        self.has_drifted = False
        self.meter = Meter(device)
        self.compute = Compute(job, device)
        self.traits = traits = job.traits()
        method_class = registry.load_module("sync", job.sync).Method
        self.method: SyncMethod = method_class(job.sync_options(), GRADIENT_TYPES[job.precision])

        trainers = job.trainers(place.world_size)
        self.trains = self.rank in trainers
        trainer_index = trainers.index(self.rank) if self.trains else 0
        self.shard = make_shard(job, train_set.labels, trainer_index, len(trainers))
        compares = traits.exact and not self.is_alone
        self.schedule = schedule = Schedule.of(job, self.shard.steps, compares=compares)
        self.reporter = StepReporter(self.rank, job, schedule)

        # Before the model is made, so that a run can be repeated bit by bit.
        torch.manual_seed(job.seed)
        self.batch_norm = BatchNorm(job.batch_norm, place, self.meter, trainers, traits.settles)
        self.net = net = self._make_net()
        self.optimizer = optimizer = self.compute.optimizer(net)
        self.checkpoints: Checkpoints | None = None
        self.resumed = Resumed()
        if job.checkpoint_every or job.resume:
            parts = CheckpointParts(
                net, optimizer, self.method, traits, self.batch_norm, device, train_set.names
            )
            self.checkpoints = Checkpoints(job, place, parts, schedule)
            if job.resume:
                self.resumed = load_newest(self.checkpoints)
        self.step = self.resumed.step
        # Hooks run in the order of registration: the clock is read before the method packs.
        self.meter.watch(net)
        self.model = self.method.prepare(self.compute.compiled(net), optimizer, place, self.meter)
        self.resumed.finish(self.method)

    def _make_net(self) -> Module:
        """Make the job's model, equal on all ranks."""
        job = self.job
        train_images = self.train_set
        net = models.build(job.model, train_images.shape, train_images.classes)
        net = self.compute.lay_out(self.batch_norm.convert(net))
        if not self.is_alone:
            broadcast([*net.parameters(), *net.buffers()], self.meter)
            # With one seed for all, each rank would drop the same units of its samples.
            torch.manual_seed(job.seed + self.rank)
        if not any(parameter.requires_grad for parameter in net.parameters()):
            raise JobError(
                f"--model {job.model}: all parameters are frozen: there is nothing to train"
            )
        return net

    @property
    def epoch(self) -> int:
        """Return the epoch, from 1 on, to which the last step belongs."""
        return self.schedule.epoch(self.step)

    @property
    def is_over(self) -> bool:
        """Return True if no step is left. It has to be the same on all ranks."""
        return self.step >= self.schedule.steps

    def enter(self, phase: Phase) -> None:
        """Report what the rank does from now on."""
        emit(Entered(self.rank, phase))

    def train(self) -> None:
        """Make all steps, with an evaluation at the end of each epoch. The run ends with one, too,
        even if its last epoch is cut off. Raises: CheckpointError."""
        began_at = time.perf_counter()
        schedule = self.schedule
        # A run that resumes from its last step makes none, but has to report its accuracy again.
        if self.is_over:
            self.evaluate()
        while not self.is_over:
            if self.trains:
                self.train_epoch()
            else:
                self.serve_epoch()
            self.evaluate()
            if schedule.saves(self.step):
                self.save()
        emit(Finished(self.rank, self.epoch, self.step, time.perf_counter() - began_at))

    def train_epoch(self) -> None:
        """Make the steps to the end of the epoch, or of the run."""
        schedule = self.schedule
        report_step = self.reporter.report
        epoch, first_group = divmod(self.step, self.shard.steps)
        # The figures of a GPU are read one step late, so the loop does not wait for them.
        steps_behind = 1 if self.device.type == "cuda" else 0
        completed_steps: deque[CompletedStep] = deque()
        self.meter.start()
        for group in self.shard.groups(epoch + 1, first_group):
            figures = self.iterate(group)
            self.step += 1
            completed_steps.append(
                CompletedStep(self.step, group.samples, figures, self.meter.lap())
            )
            if len(completed_steps) > steps_behind:
                report_step(completed_steps.popleft())
            if schedule.meets(self.step):
                self.meet()
            if self.step == schedule.steps:
                break
        for step in completed_steps:
            report_step(step)
        self.reporter.report_epoch(self.epoch, self.step)

    def serve_epoch(self) -> None:
        """Serve the others for an epoch, on a rank that holds the parameters and takes no
        samples."""
        self.enter(Phase.SERVING)
        schedule = self.schedule
        epoch_end = schedule.epoch_end(self.step)
        while self.step < epoch_end:
            next_stop = schedule.next_stop(self.step)
            self.method.serve(next_stop - self.step)
            self.step = next_stop
            if schedule.meets(next_stop):
                self.meet()

    def iterate(self, group: StepSamples) -> Tensor:
        """Make one step on a group of batches. Return its loss and correct samples, as in
        `CompletedStep`.

        Losses are scaled by ranks per sample of the group: the mean over ranks of the scaled
        losses' gradients is the joined group's gradient, however unevenly it is split.
        """
        method = self.method
        device = self.device
        step_figures = torch.zeros(2, dtype=torch.float64, device=device)
        loss_scale = self.shard.world_size / group.size
        self.optimizer.zero_grad()
        for number, indices in enumerate(group.shares, 1):
            with self.meter.loading():
                pixels, labels = self.train_set.batch(indices, device)
            with method.micro(last=number == len(group.shares)):
                logits = self.compute.logits(self.model, pixels)
                loss = cross_entropy(logits, labels, reduction="sum")
                (loss * loss_scale).backward()  # type: ignore[no-untyped-call]
            correct_count = (logits.argmax(1) == labels).sum()
            step_figures += torch.stack((loss.detach().double(), correct_count.double()))
        method.reduce()
        method.step(self.optimizer)
        # On a GPU this only queues the copy; the figures are read a step later.
        return step_figures.to("cpu", non_blocking=True)

    def meet(self) -> None:
        """Do what all ranks do together between two steps."""
        if self.schedule.compares(self.step):
            self.compare()
        if self.schedule.saves_within_epoch(self.step):
            self.save()
        self.meter.start()

    def compare(self) -> None:
        """Warn if the ranks' models differ, although the method keeps them equal."""
        difference = drift.model_difference(self.net.parameters(), self.place.world_size)
        if self.rank or difference <= drift.LARGEST_DIFFERENCE:
            return
        drifted = Drifted(0, self.step, difference)
        emit(drifted)
        if not self.has_drifted:
            print_line(f"Warning: after step {self.step} the ranks' models differ {drifted.extent}")
        self.has_drifted = True

    def save(self) -> None:
        """Save a checkpoint of the model that the ranks settle on."""
        checkpoints = self.checkpoints
        assert checkpoints
        began_at = time.perf_counter()
        self.enter(Phase.SAVING)
        self.settle()
        saved_bytes = checkpoints.save(self.step)
        seconds = time.perf_counter() - began_at
        emit(Saved(self.rank, self.epoch, self.step, seconds, saved_bytes))
        if self.rank == 0:
            written_text = f"{saved_bytes / 1e6:.1f} MB in {seconds:.3f} seconds"
            print_line(f"Checkpoint: step {self.step}, {written_text}, {checkpoints.folder}")
        self.report_next_phase()

    def settle(self) -> None:
        """Make the model equal on all ranks."""
        self.method.settle()
        if not self.traits.exact:
            self.wait_for_slowest()
        self.batch_norm.settle(self.net)

    def evaluate(self) -> None:
        """Test the model that the ranks settle on."""
        self.enter(Phase.EVALUATING)
        self.settle()
        own_accuracy = self.own_accuracy()
        with self.batch_norm.agreed(self.net):
            test_result = self._test(self.place, self.patient_group)
        # One rank reports the confusion matrix, as it is that of all.
        confusion = () if self.rank else test_result.confusion
        emit(
            Evaluated(
                self.rank,
                self.epoch,
                self.step,
                *(test_result.loss, test_result.accuracy, test_result.samples, test_result.seconds),
                confusion,
                own_accuracy,
                self.test_set.names if confusion else (),
            )
        )
        if self.rank == 0:
            self.reporter.report_test(test_result.loss, test_result.accuracy, self.epoch)
        self.report_next_phase()

    def own_accuracy(self) -> float:
        """Return the accuracy, on the whole test set, of the model that only this rank holds; -1 if
        there is none."""
        if not self.batch_norm.own(self.net):
            return -1.0
        # A rank that does not train evaluates too: the others take as long.
        test_result = self._test(Place())
        self.wait_for_slowest()
        return test_result.accuracy if self.trains else -1.0

    def _test(self, place: Place, group: ProcessGroup | None = None) -> Evaluation:
        logits = self.compute.logits
        return evaluate(self.net, self.test_set, place, self.device, logits, group)

    def wait_for_slowest(self) -> None:
        """Return when all ranks, each of which went at its own pace, have arrived."""
        if self.is_alone:
            return
        arrival_mark = torch.zeros(1, device=self.device)
        distributed.all_reduce(arrival_mark, group=self.patient_group)
        arrival_mark.item()  # on a GPU only this waits

    @cached_property
    def patient_group(self) -> ProcessGroup | None:
        """Return the group for meetings after phases without traffic, such as evaluations, in which
        a slow host falls behind."""
        return None if self.is_alone else new_group(timeout=PEER_TIMEOUT)

    def report_next_phase(self) -> None:
        """Report that the rank goes on with its steps, unless the run is over."""
        if not self.is_over:
            self.enter(Phase.TRAINING if self.trains else Phase.SERVING)
