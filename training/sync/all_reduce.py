"""One all-reduce per parameter after backward: sum over the ranks, divide by their number."""

from __future__ import annotations

import torch
from torch import distributed, nn

from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod, _payload


class Method(SyncMethod):
    """A parameter without a gradient keeps none; it has to be the same one on all ranks."""

    def prepare(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter) -> nn.Module:
        """The model as it is."""
        self._world_size, self._meter = place.world_size, meter
        self._bytes = _payload.ring(_payload.gradient_bytes(model), place.world_size)
        return model

    def reduce(self, model: nn.Module) -> None:
        """Replaces each gradient by its mean over the ranks."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                with self._meter.waiting():
                    distributed.all_reduce(parameter.grad)
                parameter.grad /= self._world_size
        self._meter.bytes_sent += self._bytes
