"""Local SGD: each rank follows its own gradients, and every few steps the ranks' parameters are
averaged.

Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019. The optimiser's state, such as
momentum, stays each rank's own. Parameters travel in their own type, whatever the precision: bf16
would round off more than a step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed
from torch.distributed import Work
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.place import Place
from training.rendezvous import PEER_TIMEOUT, new_group
from training.step_formulas import ring_bytes
from training.sync import SyncMethod
from training.sync.common.bucketed import wait_for_all
from training.sync.common.gradients import Bucket, Gradients

OPTIONS = {
    "every": {
        "default": 8,
        "help": "number of steps between two averages of the parameters",
        "low": 1,
    },
    "warmup": {
        "default": 0,
        "help": "number of exact steps at the start",
        "low": 0,
    },
}
TRAITS = {"exact": False, "own_optimizer": True}


class Method(SyncMethod):
    """Gradients, in the warm-up, and later parameters travel in the same flat buffers. The flags at
    their end say which parameters a rank has changed since the last average. A parameter that no
    rank has changed stays the same, bit by bit. One that only some ranks have changed is averaged
    over all, but weight decay applies on those ranks only: there even `every=1` is not exact.
    """

    def prepare(self, model: Module, optimizer: Optimizer, place: Place, meter: Meter) -> Module:
        """Return the model unchanged."""
        self._world_size = world_size = place.world_size
        self._meter = meter
        self._steps = 0
        self._steps_alone = 0
        self._pending_works: list[Work | None] = []
        # A group of its own: a slow host may reach an average long after the timeout of the default
        # group.
        self._group = new_group(timeout=PEER_TIMEOUT) if world_size > 1 else None
        self._gradients = Gradients(model, self._launch_bucket, world_size, overlap=False)
        self._payload_bytes = ring_bytes(self._gradients.size, world_size)
        return model

    def reduce(self) -> None:
        """Average the gradients in the warm-up; later each rank's gradients are its own."""
        gradients = self._gradients
        if self._steps < self.options.warmup:
            gradients.flush()
            self._wait_for_works()
            for bucket in gradients.buckets:
                gradients.unpack(bucket)
            self._meter.add("bytes_sent", self._payload_bytes)
            return
        # No gradient travels now. What is noted is which parameters the step will change.
        for bucket in gradients.buckets:
            for position, parameter in enumerate(bucket.parameters):
                if parameter.grad is not None:
                    bucket.used[position] = True

    def step(self, optimizer: Optimizer) -> None:
        """Change the parameters, and average them when due."""
        optimizer.step()
        self._steps += 1
        if self._steps > self.options.warmup:
            self._steps_alone += 1
        if self._steps_alone == self.options.every:
            self._average_parameters()
            self._meter.add("bytes_sent", self._payload_bytes)

    def settle(self) -> None:
        """Average the parameters, unless they are equal already."""
        if self._steps_alone:
            self._average_parameters()

    def state(self) -> dict[str, Any]:
        """Return the number of steps. When a model is saved the ranks have settled, so nothing else
        differs."""
        return {"steps": self._steps}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state, of a model on which the ranks have settled."""
        self._steps = state["steps"]
        self._steps_alone = 0

    @torch.no_grad()
    def _average_parameters(self) -> None:
        buckets = self._gradients.buckets
        for bucket in buckets:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                # Divided before the sum, as gradients are, so that the sum is the mean.
                torch.div(parameter, self._world_size, out=view)
            bucket.flags.copy_(torch.tensor(bucket.used))
            self._launch_bucket(bucket)
        self._wait_for_works()
        for bucket in buckets:
            has_changed = bucket.flags.tolist()
            for parameter, view, changed in zip(
                bucket.parameters, bucket.views, has_changed, strict=True
            ):
                if changed:
                    parameter.copy_(view)
            bucket.reset()
        self._steps_alone = 0

    def _launch_bucket(self, bucket: Bucket) -> None:
        if self._world_size > 1:
            pending_work = distributed.all_reduce(bucket.buffer, async_op=True, group=self._group)
            self._pending_works.append(pending_work)

    def _wait_for_works(self) -> None:
        with self._meter.waiting():
            wait_for_all(self._pending_works)
        self._pending_works.clear()
