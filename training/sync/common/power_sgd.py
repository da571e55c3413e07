"""Torch's PowerSGD for DDP: gradients as products of two narrow matrices; the error is added to the
gradients of the next step.

Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
NeurIPS 2019.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.futures import Future
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel

LEAST_COMPRESSION = 2
"""A gradient is compressed only if it becomes smaller by more than this factor."""
SAVED_STATES = ("error_dict", "p_memory_dict", "q_memory_dict")


class PowerSGD:
    """The hook and its state. The `start` first steps are exact; DDP does not make the first one.

    Torch keeps errors and matrices per bucket. Here the buckets are final once DDP is made, so the
    state fits a resumed run too.
    """

    def __init__(self, rank: int, start: int) -> None:
        # The epsilon matters only for a gradient of zeros, which would become NaN without it.
        self._state = PowerSGDState(
            None,
            rank,
            start,
            min_compression_rate=LEAST_COMPRESSION,
            orthogonalization_epsilon=1e-30,
        )
        # DDP does not make the first step of a run.
        self._state.iter = 1

    def register(self, ddp: DistributedDataParallel) -> None:
        """Register the hook with DDP. Called before DDP's first step."""
        # Otherwise DDP rebuilds its bucket after a step, in the order of the gradients.
        ddp.reducer._push_all_rebuilt_params()
        ddp.register_comm_hook(self._state, power_sgd_hook)

    def size(self, parameters: Iterable[Parameter]) -> int:
        """Return the bytes that the last step exchanged for the gradients of these parameters."""
        is_exact = self._state.iter <= self._state.start_powerSGD_iter
        return sum(
            (p.numel() if is_exact else self._exchanged_elements(p)) * p.itemsize
            for p in parameters
        )

    def state(self) -> dict[str, Any]:
        """Return the state for `torch.save`. Random numbers need no state: they are drawn once,
        when the compression starts, from a fixed seed."""
        return {"iter": self._state.iter} | {
            name: getattr(self._state, name) for name in SAVED_STATES
        }

    def load(self, state: dict[str, Any], device: torch.device) -> None:
        """Restore a `state`."""
        self._state.iter = state["iter"]
        for name in SAVED_STATES:
            setattr(
                self._state,
                name,
                {bucket: tensor.to(device) for bucket, tensor in state[name].items()},
            )

    def _exchanged_elements(self, parameter: Parameter) -> int:
        """Return the number of elements exchanged for a gradient: of two matrices, or its own if
        that is cheaper."""
        size = parameter.numel()
        rows = parameter.shape[0] if parameter.dim() else 1
        columns = size // rows if size else 0
        compressed_size = (rows + columns) * self._state.matrix_approximation_rank
        return int(compressed_size if compressed_size * LEAST_COMPRESSION < size else size)


@dataclass(frozen=True)
class NonEmptyBucket:
    """A bucket whose gradients all have a dimension and an element, as torch's hook expects."""

    bucket: GradBucket

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bucket, name)

    def gradients(self) -> list[Tensor]:
        """Return the gradients as views of the bucket."""
        return [
            gradient if gradient.dim() else gradient.view(1)
            for gradient in self.bucket.gradients()
            if gradient.numel()
        ]


def power_sgd_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Run torch's hook and wait for its exchange. Torch's hook would continue in a thread of the
    backend, whose collectives race with those that backward launches next. Torch checks the
    annotations of a hook, so they must not be strings."""
    on_gpu = bucket.buffer().is_cuda
    # On a machine with GPUs torch's hook synchronises the device of the bucket, and fails for CPUs.
    with patch.object(torch.cuda, "is_available", lambda: on_gpu):
        exchange_future: Future[Tensor] = powerSGD_hook(
            state, cast(GradBucket, NonEmptyBucket(bucket))
        )
        exchange_future.wait()
    return exchange_future
