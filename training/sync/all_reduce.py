"""One all-reduce per parameter after backward: sum over the ranks, divide by their number."""

from __future__ import annotations

import torch
from torch import distributed, nn

from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod, broadcast, ring_bytes


class Method(SyncMethod):
    """A parameter without a gradient keeps none; it has to be the same one on all ranks.

    Buffers (BatchNorm's running figures) are each rank's own while it trains; rank 0's count, as under DDP.
    """

    def prepare(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter) -> nn.Module:
        """Gives rank 0's parameters and buffers to all."""
        self._world_size, self._meter, self._bytes = place.world_size, meter, ring_bytes(model, place)
        broadcast([*model.parameters(), *model.buffers()], meter)
        return model

    def reduce(self, model: nn.Module) -> None:
        """Replaces each gradient by its mean over the ranks."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                with self._meter.waiting():
                    distributed.all_reduce(parameter.grad)
                parameter.grad /= self._world_size
        self._meter.bytes_sent += self._bytes

    def settle(self, model: nn.Module) -> None:
        """Gives rank 0's buffers to all."""
        broadcast(model.buffers(), self._meter)
