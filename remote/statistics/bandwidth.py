"""The least time in which a link lets ranks average their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

BEST: Mapping[str, Callable[[int], float]] = {
    "gather, then scatter": lambda ranks: 2.0 * (ranks - 1),
    "gather and scatter in buckets": lambda ranks: float(ranks - 1),
    "ring": lambda ranks: 2 * (ranks - 1) / ranks,
}
"""How often the busiest link carries the gradients of one rank, at best, if links are full duplex:
in the first the root receives all before it sends, in the second it does both at once."""


def best_seconds(pattern: str, size: float, ranks: int, bandwidth: float) -> float:
    """Return the least time to average `size` bytes of gradients on each of `ranks`.

    The bandwidth is in bytes per second: 1 Gbit/s is 125e6. Raises: KeyError, of a pattern that is
    not in `BEST`.
    """
    return BEST[pattern](ranks) * size / bandwidth
