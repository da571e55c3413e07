"""Which samples a rank takes: pure functions, equal on all ranks without a word between them.

One seeded permutation per epoch is cut into global batches; of each, rank r of W takes every W-th index from the r-th. So
all ranks make the same number of steps, shares differ by at most one sample, and none is repeated. A step takes a group of
`accumulate` global batches; an epoch's last group may have fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from training.job import JobError


@dataclass(frozen=True)
class Group:
    """A step's samples: `shares`, (n,) int64 indices, are one rank's part of each global batch; `size` is of all together."""

    shares: tuple[torch.Tensor, ...]
    size: int

    @property
    def samples(self) -> int:
        """How many this rank takes."""
        return sum(map(len, self.shares))


@dataclass(frozen=True)
class Shard:
    """The part of `rank` among the `world_size` that train. Raises: JobError, where there would be ranks without a sample."""

    samples: int
    batch_size: int
    accumulate: int
    seed: int
    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if self.samples < self.world_size:
            raise JobError(f"the data set's {self.samples} samples are fewer than the {self.world_size} ranks: use fewer ranks")

    @property
    def batches(self) -> int:
        """Global batches of an epoch; a last one smaller than `world_size` is dropped."""
        return self.samples // self.batch_size + (self.samples % self.batch_size >= self.world_size)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.batches // self.accumulate)

    @property
    def dropped(self) -> int:
        """Samples that an epoch leaves out."""
        rest = self.samples % self.batch_size
        return rest if rest < self.world_size else 0

    def groups(self, epoch: int, first: int = 0) -> Iterator[Group]:
        """The groups of an epoch (counted from 1), from the `first` (counted from 0) on."""
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.seed + epoch))
        batches = torch.split(order, self.batch_size)[: self.batches]
        for start in range(first * self.accumulate, self.batches, self.accumulate):
            group = batches[start : start + self.accumulate]
            yield Group(tuple(share(batch, self.rank, self.world_size) for batch in group), sum(map(len, group)))


def share_sizes(batch: int, world_size: int) -> list[int]:
    """How many of a global batch's samples each rank takes."""
    return [len(range(rank, batch, world_size)) for rank in range(world_size)]


def share(batch: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of a global batch, or of the samples that are evaluated."""
    return batch[rank::world_size]
