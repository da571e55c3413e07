"""Rank 0 gathers, averages and scatters the mean: a star, by segments of buckets; or, as in course
exercises, by parameters.

Segments travel to the root through one process group and back through another. The connection of a
group carries one message at a time, so in a single group outgoing messages would delay incoming
ones. The root's network is the limit: (N-1) S in each direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor, distributed
from torch.distributed import Work

from training.rendezvous import new_group
from training.step_formulas import star_bytes
from training.sync.common.bucketed import (
    BackgroundExchange,
    BucketedMethod,
    segment_count,
    wait_for_all,
)
from training.sync.common.gradients import Bucket
from training.sync.common.options import BUCKET_MB, GRANULARITY

SEGMENTS_AHEAD = 8
"""How many segments of each rank the root starts to receive before it adds the first."""
Arrival = tuple[Work | None, Tensor]
"""A receive in flight, and its buffer."""


OPTIONS = {
    "granularity": GRANULARITY,
    "bucket_mb": BUCKET_MB,
    "segment_kb": {
        "default": 256.0,
        "help": "size in kB of the pieces that are sent, received and added",
        "above": 0,
        "requires": {"granularity": ("bucket", "flat")},
    },
}


class StarExchange:
    """Exchanges all buckets of a step between the root, rank 0, and the others."""

    def __init__(self, rank: int, ranks: int, buckets: tuple[Bucket, ...], segment: float) -> None:
        self._others = range(1, ranks)
        self._up, self._down = new_group(), new_group()
        self._segments = [
            bucket.buffer.chunk(segment_count(bucket.buffer.nbytes, segment)) for bucket in buckets
        ]
        self.exchange = self._root if rank == 0 else self._leaf

    def _leaf(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Send a bucket as soon as it is launched; the sums replace the gradients."""
        works: list[tuple[Bucket, list[Work | None]]] = []
        for bucket in launched:
            segments = self._segments[bucket.index]
            received = [distributed.irecv(segment, 0, group=self._down) for segment in segments]
            sent = [distributed.isend(segment, 0, group=self._up) for segment in segments]
            works.append((bucket, sent + received))
        for bucket, both in works:
            wait_for_all(both)
            yield bucket

    def _root(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Add the segments of the others, one after another, and send each sum before it waits for
        the next segment."""
        arrivals = self._arrivals()
        sent: list[Work | None] = []
        for bucket in launched:
            for segment in self._segments[bucket.index]:
                for work, arrived in next(arrivals):
                    wait_for_all([work])
                    segment += arrived
                sent += [
                    distributed.isend(segment, other, group=self._down) for other in self._others
                ]
            yield bucket
        wait_for_all(sent)

    def _arrivals(self) -> Iterator[list[Arrival]]:
        """Start the receives from all others some segments ahead, and yield those of each
        segment."""
        asked: deque[list[Arrival]] = deque()
        for segment in (segment for segments in self._segments for segment in segments):
            rooms = [torch.empty_like(segment) for _ in self._others]
            asked.append(
                [
                    (distributed.irecv(room, other, group=self._up), room)
                    for other, room in zip(self._others, rooms, strict=True)
                ]
            )
            if len(asked) > SEGMENTS_AHEAD:
                yield asked.popleft()
        while asked:
            yield asked.popleft()


class CollectiveExchange:
    """Exchanges one bucket after another by the collectives `gather` and `scatter`."""

    def __init__(self, rank: int, ranks: int) -> None:
        self._root = rank == 0
        self._ranks = ranks

    def exchange(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Yield each bucket as the sum over the ranks."""
        for bucket in launched:
            buffer = bucket.buffer
            gathered = (
                [torch.empty_like(buffer) for _ in range(self._ranks)] if self._root else None
            )
            distributed.gather(buffer, gathered)
            total = torch.stack(gathered).sum(0) if gathered else buffer
            distributed.scatter(buffer, [total] * self._ranks if self._root else None)
            yield bucket


class Method(BucketedMethod):
    """The star, in a thread of its own during backward; or the listing."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make the star's two groups, one for each direction."""
        rank = self.place.rank
        ranks = self.place.world_size
        on_cpu = buckets[0].buffer.device.type == "cpu"
        if self.options.granularity == "parameter" or not on_cpu:
            self.background = BackgroundExchange(
                CollectiveExchange(rank, ranks).exchange, threaded=False
            )
        else:
            self.background = BackgroundExchange(
                StarExchange(rank, ranks, buckets, self.options.segment_kb * 1000).exchange,
                threaded=True,
            )

    def payload(self, size: int) -> int:
        """Return the bytes of a star."""
        return star_bytes(size, self.place.world_size, root=self.place.rank == 0)
