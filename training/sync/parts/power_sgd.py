"""Torch's PowerSGD for DDP: gradients as products of two thin matrices, and what that leaves out is
added to the next step's.

Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
NeurIPS 2019.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

RATE = 2
"""A gradient is compressed only if that makes it more than so many times smaller."""
KEPT = ("error_dict", "p_memory_dict", "q_memory_dict")


class PowerSGD:
    """The hook and what it keeps. The `start` first steps are exact; the very first is not DDP's.

    Torch keeps the left-out part and the matrices by bucket; here the buckets are laid out for good
    when DDP is made, so that what is kept fits a resumed run too.
    """

    def __init__(self, rank: int, start: int) -> None:
        # the epsilon is too small to matter but for a gradient of zeros, which without it would
        # become NaN
        self._state = PowerSGDState(
            None, rank, start, min_compression_rate=RATE, orthogonalization_epsilon=1e-30
        )
        self._state.iter = 1

    def register(self, ddp: DistributedDataParallel) -> None:
        """Makes DDP use it. Called before DDP's first step."""
        # else DDP lays its bucket out anew after a step, as the gradients came
        ddp.reducer._push_all_rebuilt_params()
        ddp.register_comm_hook(self._state, hook)

    def size(self, parameters: Iterable[nn.Parameter]) -> int:
        """The bytes that the last step exchanged for these parameters' gradients."""
        exact = self._state.iter <= self._state.start_powerSGD_iter
        return sum((p.numel() if exact else self._elements(p)) * p.itemsize for p in parameters)

    def state(self) -> dict[str, Any]:
        """For `torch.save`. Its random numbers are drawn once, when it starts to compress, from a
        fixed seed."""
        return {"iter": self._state.iter} | {name: getattr(self._state, name) for name in KEPT}

    def load(self, state: dict[str, Any], device: torch.device) -> None:
        """Goes on from a `state`."""
        self._state.iter = state["iter"]
        for name in KEPT:
            setattr(
                self._state, name, {bucket: kept.to(device) for bucket, kept in state[name].items()}
            )

    def _elements(self, parameter: nn.Parameter) -> int:
        """How many are exchanged for a gradient: two matrices where that pays, else its own."""
        size = parameter.numel()
        rows = parameter.shape[0] if parameter.dim() else 1
        columns = size // rows if size else 0
        compressed = (rows + columns) * self._state.matrix_approximation_rank
        return int(compressed if compressed * RATE < size else size)


@dataclass(frozen=True)
class Matrices:
    """A bucket whose gradients all have a first dimension and an element, which torch's hook takes
    for granted."""

    bucket: GradBucket

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)

    def gradients(self) -> list[torch.Tensor]:
        """Views of the bucket."""
        return [
            gradient if gradient.dim() else gradient.view(1)
            for gradient in self.bucket.gradients()
            if gradient.numel()
        ]


def hook(state: PowerSGDState, bucket: GradBucket) -> Future[torch.Tensor]:
    """Waits for the exchange: torch's continues in a thread of the backend, whose collectives would
    race with those that backward launches next, in another order on each rank. Torch checks the
    annotations, so they are no strings here."""
    on_gpu = bucket.buffer().is_cuda
    # Wherever there is a GPU torch's hook waits for the device that the bucket is on, and fails if
    # that is the CPU.
    with patch.object(torch.cuda, "is_available", lambda: on_gpu):
        done: Future[torch.Tensor] = powerSGD_hook(state, cast(GradBucket, Matrices(bucket)))
        done.wait()
    return done
