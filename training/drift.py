"""Checks whether the ranks' models are equal, by the sum and the L2 norm of their parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, distributed

LARGEST_DIFFERENCE = 1e-6
"""The largest relative difference between equal models."""


def model_difference(parameters: Iterable[Tensor], ranks: int) -> float:
    """Return the largest difference of sum or norm between ranks, relative to the norm on the first
    rank. Called by all ranks.

    It is infinite where a figure is finite on some ranks only. Where it is finite on none, the
    model has diverged, but equally on all ranks.
    """
    own = _sum_and_norm(parameters)
    gathered = [torch.empty_like(own) for _ in range(ranks)]
    distributed.all_gather(gathered, own)
    figures = torch.stack(gathered)
    finite = figures.isfinite()
    if (finite.any(0) != finite.all(0)).any():
        return math.inf
    if not finite.all():
        return 0.0
    spread = figures.amax(0) - figures.amin(0)
    return float((spread / figures[0, 1].clamp(min=1e-30)).max())


@torch.no_grad()
def _sum_and_norm(parameters: Iterable[Tensor]) -> Tensor:
    """Return the sum and the L2 norm of all parameters, (2,) float64."""
    doubles = (parameter.double() for parameter in parameters)
    of_each = torch.stack([torch.stack((values.sum(), values.norm())) for values in doubles])
    sums, norms = of_each.unbind(1)
    return torch.stack((sums.sum(), norms.norm()))
