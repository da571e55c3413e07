"""How many bytes a rank hands to the network to synchronise `size` bytes among `ranks`: one formula per pattern of traffic."""

from __future__ import annotations

import torch
from torch import nn


def gradient_bytes(model: nn.Module, dtype: torch.dtype | None = None) -> int:
    """The size of the model's gradients, in their own type or in the one in which they travel."""
    return sum(p.numel() * (dtype or p.dtype).itemsize for p in model.parameters() if p.requires_grad)


def ring(size: int, ranks: int) -> int:
    """An all-reduce as a ring, such as Gloo's: scatter-reduce, then all-gather, 2 (N-1)/N S on every rank."""
    return 2 * (ranks - 1) * size // ranks


def star(size: int, ranks: int, root: bool) -> int:
    """All give to a root and get back from it: S, and (N-1) S on the root."""
    return size * (ranks - 1 if root else 1) if ranks > 1 else 0


def hierarchy(size: int, inside: int, hosts: int, leader: bool) -> int:
    """A star among the ranks inside a host, whose root, the host's leader, takes part in a ring of the hosts."""
    return star(size, inside, leader) + (ring(size, hosts) if leader else 0)
