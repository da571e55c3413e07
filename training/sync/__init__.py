"""What a method of synchronising the ranks' gradients is. Each module here is one, as its class `Method`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import distributed, nn

from training.meter import Meter
from training.place import Place


class SyncMethod:
    """How ranks keep one model. Every verb has a default that does nothing.

    A method blocks on other ranks only inside `with meter.waiting():`.
    """

    exact: ClassVar[bool] = True
    """Whether all ranks hold the same model after every step."""

    def prepare(self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter) -> nn.Module:
        """Makes rank 0's state everybody's and returns the model to call from now on. Called once, by all ranks."""
        return model

    def reduce(self, model: nn.Module) -> None:
        """Called after a step's last backward; on return every `p.grad` is final: the mean over the ranks."""

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Changes the parameters."""
        optimizer.step()

    def settle(self, model: nn.Module) -> None:
        """Makes one model of all ranks' before it is evaluated or kept."""


def broadcast(tensors: Iterable[torch.Tensor], meter: Meter) -> None:
    """Gives rank 0's tensors to all ranks, in place."""
    with meter.waiting(), torch.no_grad():
        for tensor in tensors:
            distributed.broadcast(tensor, src=0)


def ring_bytes(model: nn.Module, place: Place) -> int:
    """What a rank sends to all-reduce the model's gradients of S bytes in a ring of N: 2 (N-1)/N S."""
    size = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return 2 * (place.world_size - 1) * size // place.world_size
