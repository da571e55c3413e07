"""PyTorch's DistributedDataParallel: gradients travel in buckets of 25 MB while backward still runs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod, _payload

BUCKET_MB = 25


class Method(SyncMethod):
    """DDP as it comes, but it leaves buffers alone: nobody waits for a slow rank inside forward, where the wait could not be
    told from computing.
    """

    def prepare(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter) -> nn.Module:
        """Wraps the model."""
        self._meter, self._bytes = meter, _payload.ring(_payload.gradient_bytes(model), place.world_size)
        on_gpu = next(model.parameters()).is_cuda
        with meter.waiting():
            return DistributedDataParallel(
                model,
                device_ids=[place.local_rank] if on_gpu else None,
                bucket_cap_mb=BUCKET_MB,
                gradient_as_bucket_view=True,
                forward_sync_buffers=False,
                init_sync=False,
            )

    def reduce(self, model: nn.Module) -> None:
        """Backward has done it; what it took after the last gradient was waiting."""
        self._meter.waited_since_gradient()
        self._meter.bytes_sent += self._bytes
