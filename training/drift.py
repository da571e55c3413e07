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
    own_figures = _sum_and_norm(parameters)
    all_figures = [torch.empty_like(own_figures) for _ in range(ranks)]
    distributed.all_gather(all_figures, own_figures)
    figures = torch.stack(all_figures)
    is_finite = figures.isfinite()
    # Before the comparison, as NaN differs from itself.
    if (is_finite.any(0) != is_finite.all(0)).any():
        return math.inf
    if not is_finite.all():
        return 0.0
    largest_spread = figures.amax(0) - figures.amin(0)
    # A model of zeros has the norm 0.
    return float((largest_spread / figures[0, 1].clamp(min=1e-30)).max())


@torch.no_grad()
def _sum_and_norm(parameters: Iterable[Tensor]) -> Tensor:
    """Return the sum and the L2 norm of all parameters, (2,) float64."""
    doubles = (parameter.double() for parameter in parameters)
    parameter_figures = torch.stack(
        [torch.stack((values.sum(), values.norm())) for values in doubles]
    )
    sums, norms = parameter_figures.unbind(1)
    return torch.stack((sums.sum(), norms.norm()))
