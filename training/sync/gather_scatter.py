"""Rank 0 gathers, averages and scatters the mean: a star, by segments of buckets; or, as in course
exercises, by parameters.

Segments travel to the root through one process group and back through another. The connection of a
group carries one message at a time, so in a single group outgoing messages would delay incoming
ones. The root's network is the limit: (N-1) S in each direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

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

SEGMENTS_AHEAD = 8
"""How many segments of each rank the root starts to receive before it adds the first."""
Arrival = tuple[Work | None, Tensor]
"""A receive in flight, and its buffer."""


OPTIONS = {
    "granularity": "granularity",
    "bucket_mb": "bucket_mb",
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
        """`segment` in bytes."""
        self._leaves = range(1, ranks)
        self._group_up = new_group()
        self._group_down = new_group()
        bucket_buffers = [bucket.buffer for bucket in buckets]
        self._segments = [
            buffer.chunk(segment_count(buffer.nbytes, segment)) for buffer in bucket_buffers
        ]
        self.exchange = self._exchange_as_leaf if rank else self._exchange_as_root

    def _exchange_as_leaf(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Send a bucket as soon as it is launched; the sums replace the gradients."""
        in_flight: list[tuple[Bucket, list[Work | None]]] = []
        for bucket in launched:
            segments = self._segments[bucket.index]
            # Receives first: the root answers each segment as soon as it has its sum.
            works = [distributed.irecv(segment, 0, self._group_down) for segment in segments]
            works += [distributed.isend(segment, 0, self._group_up) for segment in segments]
            in_flight.append((bucket, works))
        for bucket, works in in_flight:
            wait_for_all(works)
            yield bucket

    def _exchange_as_root(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Add the segments of the others, one after another, and send each sum before it waits for
        the next segment."""
        all_arrivals = self._start_receives()
        pending_sends: list[Work | None] = []
        for bucket in launched:
            for segment in self._segments[bucket.index]:
                for work, leaf_segment in next(all_arrivals):
                    wait_for_all([work])
                    segment += leaf_segment
                for leaf in self._leaves:
                    pending_sends.append(distributed.isend(segment, leaf, self._group_down))
            yield bucket
        # Not before: to wait for a slow leaf would keep the segments of the others.
        wait_for_all(pending_sends)

    def _start_receives(self) -> Iterator[list[Arrival]]:
        """Start the receives from all others some segments ahead, and yield those of each
        segment."""
        ahead_arrivals: deque[list[Arrival]] = deque()
        for segment in chain(*self._segments):
            segment_arrivals: list[Arrival] = []
            for leaf in self._leaves:
                receive_buffer = torch.empty_like(segment)
                segment_arrivals.append(
                    (distributed.irecv(receive_buffer, leaf, self._group_up), receive_buffer)
                )
            ahead_arrivals.append(segment_arrivals)
            if len(ahead_arrivals) > SEGMENTS_AHEAD:
                yield ahead_arrivals.popleft()
        yield from ahead_arrivals


class Method(BucketedMethod):
    """The star, in a thread of its own during backward; or the listing."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make the star's two groups, one for each direction."""
        place = self.place
        on_cpu = buckets[0].buffer.device.type == "cpu"
        has_segments = on_cpu and self.options.granularity != "parameter"
        exchange = self._exchange_by_collectives
        if has_segments:
            segment_bytes = self.options.segment_kb * 1000
            exchange = StarExchange(place.rank, place.world_size, buckets, segment_bytes).exchange
        self.background = BackgroundExchange(exchange, threaded=has_segments)

    def _exchange_by_collectives(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Yield each bucket as the sum over the ranks, by `gather` and `scatter`."""
        world_size = self.place.world_size
        is_root = self.place.rank == 0
        for bucket in launched:
            buffer = bucket.buffer
            gathered_buffers = (
                [torch.empty_like(buffer) for _ in range(world_size)] if is_root else None
            )
            distributed.gather(buffer, gathered_buffers)
            sum_copies = (
                [torch.stack(gathered_buffers).sum(0)] * world_size if gathered_buffers else None
            )
            distributed.scatter(buffer, sum_copies)
            yield bucket

    def payload(self, size: int) -> int:
        """Return the bytes of a star."""
        return star_bytes(size, self.place.world_size, root=self.place.rank == 0)
