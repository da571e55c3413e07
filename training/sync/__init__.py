"""The interface of a sync method. Each module in this folder is one method, its class `Method`.

A module may declare its options (`OPTIONS`, see `training.options`) and its traits (`TRAITS`, see
`training.traits`). Code that several methods share lies in `common`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.place import Place


class SyncMethod:
    """How ranks keep one model. Every verb has a default that does nothing.

    All ranks begin with rank 0's parameters and buffers. A method waits for other ranks only inside
    `with meter.waiting():`, and adds what it sends to the figure `bytes_sent` of the meter. It
    makes its process groups and its buffers in `prepare`; it does not touch the model's buffers
    (BatchNorm's statistics).
    """

    def __init__(self, options: SimpleNamespace, gradient_dtype: torch.dtype) -> None:
        """`options`: the values of the module's `OPTIONS`; `gradient_dtype`: the type in which
        gradients travel."""
        self.options = options
        self.gradient_dtype = gradient_dtype

    def prepare(self, model: Module, optimizer: Optimizer, place: Place, meter: Meter) -> Module:
        """Return the model to call from now on. Called once, by all ranks."""
        return model

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Surround each forward and backward of a step. Nothing may be communicated before the
        `last` one of the step."""
        return nullcontext()

    def reduce(self) -> None:
        """Finish the exchange, after a step's last backward. On return every `p.grad` is final: the
        mean over the ranks that train.

        A parameter that no rank used keeps `grad = None`. Where only some ranks used it, the
        gradient of the others counts as zero.
        """

    def step(self, optimizer: Optimizer) -> None:
        """Change the parameters."""
        optimizer.step()

    def settle(self) -> None:
        """Make the parameters equal before the model is evaluated or saved. Called by all ranks at
        the same step."""

    def state(self) -> dict[str, Any]:
        """Return what this rank needs to resume from here besides the model and the optimiser, for
        `torch.save`."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a `state`. Called after `prepare`."""

    def serve(self, steps: int) -> None:
        """Serve the ranks that train, on one that does not. Return when each of the others has made
        so many steps."""


def broadcast(tensors: Iterable[Tensor], meter: Meter) -> None:
    """Send rank 0's tensors to all ranks, in place."""
    with meter.waiting(), torch.no_grad():
        for tensor in tensors:
            distributed.broadcast(tensor, src=0)
