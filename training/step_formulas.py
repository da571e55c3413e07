"""Formulas of a step that the launcher (before the start) and the ranks share: the samples of each
rank, the steps of an epoch, and the bytes that a rank sends.

Standard library only.
"""

from __future__ import annotations


def share_sizes(batch: int, world_size: int) -> list[int]:
    """Return the number of samples of a global batch that each rank takes."""
    return [len(range(rank, batch, world_size)) for rank in range(world_size)]


def count_batches(samples: int, batch_size: int, world_size: int) -> int:
    """Return the global batches of an epoch. A last one smaller than `world_size` is dropped."""
    full_batches, samples_left = divmod(samples, batch_size)
    return full_batches + 1 if samples_left >= world_size else full_batches


def count_batches_by_label(samples: int, batch_size: int, world_size: int) -> int:
    """Return the global batches of an epoch if each rank has samples of its own. The epoch ends
    when the first rank has used up its part."""
    part_sizes = share_sizes(samples, world_size)
    batch_shares = share_sizes(batch_size, world_size)
    return min(
        _divide_up(part, share) for part, share in zip(part_sizes, batch_shares, strict=True)
    )


def count_steps(batches: int, accumulate: int) -> int:
    """Return the steps of an epoch: each takes `accumulate` global batches, the last one perhaps
    fewer."""
    return _divide_up(batches, accumulate)


def ring_bytes(size: int, ranks: int) -> int:
    """Return the bytes that each rank sends in an all-reduce of `size` bytes as a ring, such as
    Gloo's: scatter-reduce, then all-gather, 2 (N-1)/N S."""
    return 2 * (ranks - 1) * size // ranks


def star_bytes(size: int, ranks: int, *, root: bool) -> int:
    """Return the bytes that a rank sends if all send `size` bytes to a root and receive as many
    from it: S, and (N-1) S on the root."""
    if ranks == 1:
        return 0
    return size * (ranks - 1) if root else size


def hierarchy_bytes(size: int, hosts: int, *, leader: bool) -> int:
    """Return the bytes that a rank sends in a ring of the hosts' leaders. Traffic inside a host
    does not count."""
    return ring_bytes(size, hosts) if leader else 0


def _divide_up(number: int, divisor: int) -> int:
    # Python rounds down, of a negative number away from 0.
    return -(-number // divisor)
