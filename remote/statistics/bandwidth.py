"""What a collective makes of the network: bus bandwidth, and the least time that a link allows.

Sizes are in bytes, times in seconds, bandwidths in bytes per second: 1 Gbit/s is 125e6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

FACTORS: Mapping[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "gather": lambda ranks: (ranks - 1) / ranks,
    "scatter": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
    "reduce": lambda ranks: 1.0,
}
"""Bus bandwidth over size / time, as nccl-tests defines it (doc/PERFORMANCE.md; gather.cu and
scatter.cu)."""

BEST: Mapping[str, Callable[[int], float]] = {
    "gather, then scatter": lambda ranks: 2.0 * (ranks - 1),
    "gather and scatter in buckets": lambda ranks: float(ranks - 1),
    "ring": lambda ranks: 2 * (ranks - 1) / ranks,
}
"""How often the busiest link carries the gradients of one rank, at best, where links are full
duplex: in the first the root receives all before it sends, in the second it does both at once."""


def bus_bandwidth(collective: str, size: float, seconds: float, ranks: int) -> float:
    """Bytes per second on the busiest link: comparable with the link, however many ranks there are.

    `size` is that of nccl-tests: of `all_reduce`, `broadcast` and `reduce` the buffer of one rank;
    of the others all ranks' buffers together. NaN where no time passed or nothing was sent.

    Raises: KeyError, of a collective that is not in `FACTORS`.
    """
    factor = FACTORS[collective](ranks)
    return size / seconds * factor if seconds > 0 and factor > 0 else math.nan


def best_seconds(pattern: str, size: float, ranks: int, bandwidth: float) -> float:
    """The least time to average `size` bytes of gradients on each of `ranks`.

    Raises: KeyError, of a pattern that is not in `BEST`.
    """
    return BEST[pattern](ranks) * size / bandwidth
