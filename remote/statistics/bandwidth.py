"""How often a link carries the gradients of a rank if ranks average them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

BEST: Mapping[str, Callable[[int], float]] = {
    "gather, then scatter": lambda ranks: 2.0 * (ranks - 1),
    "gather and scatter in buckets": lambda ranks: float(ranks - 1),
    "ring": lambda ranks: 2 * (ranks - 1) / ranks,
}
"""How often the busiest link carries the gradients of one rank, at best, if links are full duplex:
in the first the root receives all before it sends, in the second it does both at once."""
