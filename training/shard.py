"""Which samples a rank takes: pure functions, so all ranks agree without communication.

One seeded permutation per epoch is cut into global batches; rank r of W takes every W-th index of
each, from the r-th on. So all ranks make the same number of steps, shares differ by at most one
sample, and no sample is repeated. A step takes a group of `accumulate` global batches; the last
group of an epoch may have fewer.

With `by_label` each rank has samples of its own, of few labels, and takes them in a seeded order in
shares of the same size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from training.job import Job, JobError
from training.step_formulas import (
    count_batches,
    count_batches_by_label,
    count_steps,
    share_sizes,
)


@dataclass(frozen=True)
class StepSamples:
    """The samples of a step. `shares` are one rank's part of each global batch, (n,) int64 indices;
    `size` is the number of samples of all ranks."""

    shares: tuple[Tensor, ...]
    size: int

    @property
    def samples(self) -> int:
        """Return the number of this rank's samples."""
        return sum(map(len, self.shares))


@dataclass(frozen=True)
class Shard:
    """The part of rank `rank` of the `world_size` ranks that train. Raises: JobError, where there
    are more ranks than samples."""

    why_dropped: ClassVar[str] = "fewer than the {} ranks"
    samples: int
    batch_size: int
    accumulate: int
    seed: int
    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if self.samples < self.world_size:
            raise JobError(
                f"the data set has {self.samples} samples for {self.world_size} ranks: use fewer "
                "ranks"
            )

    @property
    def batches(self) -> int:
        """Return the global batches of an epoch; a last one smaller than `world_size` is
        dropped."""
        return count_batches(self.samples, self.batch_size, self.world_size)

    @property
    def steps(self) -> int:
        """Return the steps of an epoch."""
        return count_steps(self.batches, self.accumulate)

    @property
    def dropped(self) -> int:
        """Return the samples that an epoch leaves out."""
        return max(0, self.samples - self.batches * self.batch_size)

    def remarks(self) -> Iterator[str]:
        """Yield what a reader of the numbers should know about the split, one line each."""
        world_size = self.world_size
        batch_shares = share_sizes(self.batch_size, world_size)
        if len(set(batch_shares)) > 1:
            yield (
                f"A global batch of {self.batch_size} is split unevenly over {world_size} "
                f"ranks: {batch_shares}"
            )
        dropped_samples = self.dropped
        if dropped_samples:
            drop_reason = self.why_dropped.format(world_size)
            share = f"{dropped_samples} of {self.samples} samples"
            yield f"Each epoch leaves out {share}: {drop_reason}"

    def groups(self, epoch: int, first: int = 0) -> Iterator[StepSamples]:
        """Yield the groups of an epoch (from 1 on), beginning with the group `first` (from 0
        on)."""
        # Seeded by the epoch: a resumed run needs no draws of the epochs before.
        epoch_batches = self._batches(torch.Generator().manual_seed(self.seed + epoch))
        for first_batch in range(first * self.accumulate, self.batches, self.accumulate):
            shares, sizes = zip(
                *epoch_batches[first_batch : first_batch + self.accumulate], strict=True
            )
            yield StepSamples(shares, sum(sizes))

    def _batches(self, generator: torch.Generator) -> list[tuple[Tensor, int]]:
        """This rank's share of each global batch of an epoch, and the size of the batch."""
        order = torch.randperm(self.samples, generator=generator)
        batches = torch.split(order, self.batch_size)[: self.batches]
        return [(take_share(batch, self.rank, self.world_size), len(batch)) for batch in batches]


@dataclass(frozen=True)
class LabelShard(Shard):
    """The samples sorted by label and cut into one part per rank; each epoch has its own order.
    `labels` (samples,).

    An epoch ends when the first rank has used up its part; shares of the last global batch may be
    smaller.
    """

    why_dropped: ClassVar[str] = "all ranks take as many steps as the smallest part allows"
    labels: Tensor = field(repr=False, compare=False)

    @property
    def batches(self) -> int:
        """Return the global batches of an epoch."""
        return count_batches_by_label(self.samples, self.batch_size, self.world_size)

    @property
    def dropped(self) -> int:
        """Return the samples that an epoch leaves out, of all ranks."""
        return self.samples - sum(min(part, self.batches * share) for part, share in self._sizes())

    def _sizes(self) -> list[tuple[int, int]]:
        """Return the size of each rank's part of the data set, and of its share of a global
        batch."""
        parts = share_sizes(self.samples, self.world_size)
        shares = share_sizes(self.batch_size, self.world_size)
        return list(zip(parts, shares, strict=True))

    def _batches(self, generator: torch.Generator) -> list[tuple[Tensor, int]]:
        sizes = self._sizes()
        # Every rank draws the orders of all parts, as they come from one sequence of numbers.
        orders = [torch.randperm(part, generator=generator) for part, _ in sizes]
        # Stable, since all ranks have to put equal labels into the same order.
        parts = torch.split(self.labels.argsort(stable=True), [part for part, _ in sizes])
        indices = parts[self.rank][orders[self.rank]]
        own_shares = torch.split(indices, sizes[self.rank][1])[: self.batches]
        batches: list[tuple[Tensor, int]] = []
        for number, own_share in enumerate(own_shares):
            batch_size = sum(min(share, part - number * share) for part, share in sizes)
            batches.append((own_share, batch_size))
        return batches


def make_shard(job: Job, labels: Tensor, rank: int, world_size: int) -> Shard:
    """Choose the part of `rank` of the samples with these labels, as the job partitions them.
    Raises: JobError."""
    shard_fields = (len(labels), job.batch_size, job.accumulate, job.seed, rank, world_size)
    return (
        LabelShard(*shard_fields, labels) if job.partition == "by_label" else Shard(*shard_fields)
    )


def take_share(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Return a rank's part of a global batch."""
    return batch[rank::world_size]
