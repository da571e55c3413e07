"""PyTorch's DistributedDataParallel: gradients travel in buckets of 25 MB while backward still runs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod, broadcast, ring_bytes

BUCKET_MB = 25


class Method(SyncMethod):
    """DDP as it comes, but for buffers: rank 0's go to all when the model settles, not before each forward.

    Training does not read them, so the model is the same, and nobody waits for a slow rank inside forward, where the wait
    could not be told from computing.
    """

    def prepare(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter) -> nn.Module:
        """Wraps the model; DDP gives rank 0's parameters and buffers to all."""
        self._meter, self._bytes = meter, ring_bytes(model, place)
        on_gpu = next(model.parameters()).is_cuda
        with meter.waiting():
            return DistributedDataParallel(
                model,
                device_ids=[place.local_rank] if on_gpu else None,
                bucket_cap_mb=BUCKET_MB,
                gradient_as_bucket_view=True,
                forward_sync_buffers=False,
            )

    def reduce(self, model: nn.Module) -> None:
        """Backward has done it; what it took after the last gradient was waiting."""
        self._meter.waited_since_gradient()
        self._meter.bytes_sent += self._bytes

    def settle(self, model: nn.Module) -> None:
        """Gives rank 0's buffers to all."""
        broadcast(model.buffers(), self._meter)
