"""How many samples a rank takes: a global batch split over the ranks, and the batches of an epoch.

Standard library only: the launcher says it before the start.
"""

from __future__ import annotations


def share_sizes(batch: int, world_size: int) -> list[int]:
    """The number of samples of a global batch that each rank takes."""
    return [len(range(rank, batch, world_size)) for rank in range(world_size)]


def batches(samples: int, batch_size: int, world_size: int) -> int:
    """The global batches of an epoch; a last one smaller than `world_size` is dropped."""
    return samples // batch_size + (samples % batch_size >= world_size)


def own_batches(samples: int, batch_size: int, world_size: int) -> int:
    """The global batches of an epoch where each rank has samples of its own: it ends when the first
    rank has used up its part."""
    parts = share_sizes(samples, world_size)
    shares = share_sizes(batch_size, world_size)
    return min(-(-part // share) for part, share in zip(parts, shares, strict=True))


def steps(batches: int, accumulate: int) -> int:
    """The steps of an epoch: each takes `accumulate` global batches, the last one perhaps fewer."""
    return -(-batches // accumulate)
