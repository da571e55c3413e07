"""Which samples a rank takes: pure functions, equal on all ranks without a word between them.

One seeded permutation per epoch is cut into global batches; of each, rank r of W takes every W-th
index from the r-th. So all ranks make the same number of steps, shares differ by at most one
sample, and none is repeated. A step takes a group of `accumulate` global batches; an epoch's last
group may have fewer.

By label, each rank keeps samples of its own instead, few labels each, and takes them in a seeded
order in shares as large.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from training.job import Job, JobError


@dataclass(frozen=True)
class Group:
    """A step's samples: `shares`, (n,) int64 indices, are one rank's part of each global batch;
    `size` is of all together."""

    shares: tuple[torch.Tensor, ...]
    size: int

    @property
    def samples(self) -> int:
        """How many this rank takes."""
        return sum(map(len, self.shares))


@dataclass(frozen=True)
class Shard:
    """The part of `rank` among the `world_size` that train. Raises: JobError, where there would be
    ranks without a sample."""

    samples: int
    batch_size: int
    accumulate: int
    seed: int
    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if self.samples < self.world_size:
            raise JobError(
                f"the data set's {self.samples} samples are fewer than the {self.world_size} "
                "ranks: use fewer ranks"
            )

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
        return max(0, self.samples - self.batches * self.batch_size)

    def remarks(self) -> Iterator[str]:
        """What a reader of the figures should know about the split, one line each."""
        shares = share_sizes(self.batch_size, self.world_size)
        if len(set(shares)) > 1:
            yield (
                f"A global batch of {self.batch_size} is split unevenly over {self.world_size} "
                f"ranks: {shares}"
            )
        if self.dropped:
            yield f"Each epoch leaves out {self.dropped} of {self.samples} samples: {self._why()}"

    def _why(self) -> str:
        return f"fewer than the {self.world_size} ranks"

    def groups(self, epoch: int, first: int = 0) -> Iterator[Group]:
        """The groups of an epoch (counted from 1), from the `first` (counted from 0) on."""
        batches = self._batches(torch.Generator().manual_seed(self.seed + epoch))
        for start in range(first * self.accumulate, self.batches, self.accumulate):
            shares, sizes = zip(*batches[start : start + self.accumulate], strict=True)
            yield Group(shares, sum(sizes))

    def _batches(self, generator: torch.Generator) -> list[tuple[torch.Tensor, int]]:
        """Of each global batch of an epoch this rank's share, and the size."""
        order = torch.randperm(self.samples, generator=generator)
        batches = torch.split(order, self.batch_size)[: self.batches]
        return [(share(batch, self.rank, self.world_size), len(batch)) for batch in batches]


@dataclass(frozen=True)
class LabelShard(Shard):
    """The samples sorted by label (of `labels`, (samples,)) and cut into one part per rank,
    permuted anew in each epoch.

    An epoch ends with the rank whose part is used up first; in its last global batch, shares may be
    smaller than usual.
    """

    labels: torch.Tensor = field(repr=False, compare=False)

    @property
    def batches(self) -> int:
        """Global batches of an epoch."""
        return min(-(-part // share) for part, share in self._sizes())

    @property
    def dropped(self) -> int:
        """Samples that an epoch leaves out, of all ranks."""
        return self.samples - sum(min(part, self.batches * share) for part, share in self._sizes())

    def _why(self) -> str:
        return "all ranks take as many steps as the smallest part allows"

    def _sizes(self) -> list[tuple[int, int]]:
        """Of each rank: its part of the data set, and its share of a whole global batch."""
        parts, shares = (
            share_sizes(self.samples, self.world_size),
            share_sizes(self.batch_size, self.world_size),
        )
        return list(zip(parts, shares, strict=True))

    def _batches(self, generator: torch.Generator) -> list[tuple[torch.Tensor, int]]:
        sizes = self._sizes()
        orders = [torch.randperm(part, generator=generator) for part, _ in sizes]
        parts = torch.split(self.labels.argsort(stable=True), [part for part, _ in sizes])
        own = torch.split(parts[self.rank][orders[self.rank]], sizes[self.rank][1])[: self.batches]
        return [
            (batch, sum(min(share, part - number * share) for part, share in sizes))
            for number, batch in enumerate(own)
        ]


def shard(job: Job, labels: torch.Tensor, rank: int, world_size: int) -> Shard:
    """The part of `rank` of the samples with these labels, as the job partitions them. Raises:
    JobError."""
    split = (len(labels), job.batch_size, job.accumulate, job.seed, rank, world_size)
    return LabelShard(*split, labels) if job.partition == "by_label" else Shard(*split)


def share_sizes(batch: int, world_size: int) -> list[int]:
    """How many of a global batch's samples each rank takes."""
    return [len(range(rank, batch, world_size)) for rank in range(world_size)]


def share(batch: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """A rank's part of a global batch, or of the samples that are evaluated."""
    return batch[rank::world_size]
