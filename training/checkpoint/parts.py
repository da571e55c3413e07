"""What a checkpoint is made of, and how far the run was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from training.batch_norm.layers import BatchNorm
from training.job import Job
from training.sync import SyncMethod
from training.traits import Traits


@dataclass(frozen=True)
class RunPosition:
    """How far a run is, in terms that hold for other numbers of ranks too: after `step` steps it
    has made whole `epochs` and taken the first `samples` in the order of the next one."""

    step: int
    epochs: int
    samples: int

    @classmethod
    def at(cls, step: int, job: Job, steps_per_epoch: int) -> RunPosition:
        """Make the position of a job after a step."""
        epochs, steps = divmod(step, steps_per_epoch)
        return cls(step, epochs, steps * job.batch_size * job.accumulate)

    def steps(self, job: Job, steps_per_epoch: int) -> int:
        """Return the number of steps with which this job reaches the position, or comes nearest
        before it."""
        within_epoch = self.samples // (job.batch_size * job.accumulate)
        return self.epochs * steps_per_epoch + min(within_epoch, steps_per_epoch)


@dataclass(frozen=True)
class CheckpointParts:
    """The live objects of this rank that a checkpoint saves, and the names of the classes, where
    there are any."""

    net: Module
    optimizer: Optimizer
    method: SyncMethod
    traits: Traits
    batch_norm: BatchNorm
    device: torch.device
    classes: tuple[str, ...]

    def shared(self) -> dict[str, Any]:
        """Return what is saved once for all ranks. It is the same on every rank, except for what a
        sync method leaves to rank 0, such as momentum."""
        return {
            "model": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict()["state"],
            "classes": list(self.classes),
        }

    def own(self) -> dict[str, Any]:
        """Return what each rank saves by itself: its part of the model, and the optimiser where it
        follows gradients that only this rank has."""
        own_state = {"method": self.method.state(), "random": torch.get_rng_state()}
        if self.device.type == "cuda":
            own_state["random_gpu"] = torch.cuda.get_rng_state(self.device)
        if self.traits.own_optimizer:
            own_state["optimizer"] = self.optimizer.state_dict()["state"]
        own_model = self.batch_norm.own(self.net)
        if own_model:
            own_state["model"] = own_model
        return own_state
