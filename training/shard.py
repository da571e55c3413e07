"""Which samples a rank takes: pure functions, equal on all ranks without a word between them.

One seeded permutation per epoch is cut into global batches; of each, rank r of W takes every W-th index from the r-th. So
all ranks make the same number of steps, shares differ by at most one sample, and none is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from training.job import JobError


def check_batch(batch_size: int, world_size: int) -> None:
    """Raises: JobError, where a global batch has no sample for some rank."""
    if batch_size < world_size:
        raise JobError(f"--batch-size {batch_size} is smaller than the {world_size} ranks: give at least {world_size}")


def steps_per_epoch(samples: int, batch_size: int, world_size: int) -> int:
    """Global batches of an epoch; a last one smaller than `world_size` is dropped.

    Raises: JobError, where there would be ranks without a sample.
    """
    check_batch(batch_size, world_size)
    if samples < world_size:
        raise JobError(f"the data set's {samples} samples are fewer than the {world_size} ranks: use fewer ranks")
    return samples // batch_size + (samples % batch_size >= world_size)


def dropped(samples: int, batch_size: int, world_size: int) -> int:
    """Samples that an epoch leaves out."""
    rest = samples % batch_size
    return rest if rest < world_size else 0


def share_sizes(batch: int, world_size: int) -> list[int]:
    """How many of a global batch's samples each rank takes."""
    return [len(range(rank, batch, world_size)) for rank in range(world_size)]


def global_batches(samples: int, batch_size: int, world_size: int, seed: int, epoch: int) -> Iterator[torch.Tensor]:
    """The global batches of an epoch (counted from 1), each (n,) int64 indices."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed + epoch))
    for batch in range(steps_per_epoch(samples, batch_size, world_size)):
        yield order[batch * batch_size : (batch + 1) * batch_size]


def share(batch: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of a global batch."""
    return batch[rank::world_size]


def evaluation_share(samples: int, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of the samples that are evaluated: unpadded, in order, (n,) int64."""
    return torch.arange(samples)[rank::world_size]
