"""A ring all-reduce: scatter-reduce, then all-gather. Each rank sends to the next one and receives
from the previous one.

A buffer is cut into one chunk per rank, and each chunk into segments. In step s of 2 (N-1) rank r
sends chunk r - s and receives chunk r - s - 1; in the first N-1 steps it adds what it receives. It
sends in one step what it has received in the step before, segment by segment, so adding one segment
overlaps with receiving the others and the network is never idle. Each sum is computed once and then
copied, so all ranks hold the same bits. (Patarasuk and Yuan, Bandwidth optimal all-reduce
algorithms, 2009.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, distributed
from torch.distributed import Work

from training.sync.common.bucketed import (
    BackgroundExchange,
    BucketedMethod,
    segment_count,
    wait_for_all,
)
from training.sync.common.gradients import Bucket

OPTIONS = {
    "granularity": "granularity of buckets",
    "bucket_mb": "bucket_mb",
    "segment_kb": {
        "default": 1000.0,
        "help": "size in kB of the pieces that are sent, received and added",
        "above": 0,
    },
}


class RingExchange:
    """Exchanges one buffer after another. `scratch` holds what is received and not yet added."""

    def __init__(self, rank: int, ranks: int, scratch: Tensor, segment: float) -> None:
        """`scratch` (bytes,) is as long as the largest buffer; `segment` in bytes."""
        self._rank = rank
        self._ranks = ranks
        self._segment = segment
        self._scratch = scratch
        self._next = (rank + 1) % ranks
        self._previous = (rank - 1) % ranks

    def exchange(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Yield each bucket as the sum over the ranks."""
        for bucket in launched:
            if bucket.buffer.is_cuda:
                self.sum_by_pairs(bucket.buffer)
            else:
                self.sum_by_segments(bucket.buffer)
            yield bucket

    def sum_by_segments(self, buffer: Tensor) -> None:
        """Replace a buffer (elements,) by the sum over the ranks, for a backend that matches sends
        and receive in any order."""
        ranks = self._ranks
        count = segment_count(buffer.nbytes // ranks, self._segment)
        chunks = cut_into_chunks(buffer, ranks, count)
        received: list[Tensor] = []
        for step in range(self._steps):
            received += chunks[(self._rank - step - 1) % ranks]
        total = len(received)
        added = total // 2
        arriving = [*view_scratch_like(self._scratch, received[:added]), *received[added:]]
        # All receives start at once, so no sender waits for one.
        receives = [self._receive(segment) for segment in arriving]
        sends = [self._send(segment) for segment in chunks[self._rank]]
        for number, (receive, segment) in enumerate(zip(receives, received, strict=True)):
            wait_for_all([receive])
            if number < added:
                segment += arriving[number]
            if number + count < total:
                sends.append(self._send(segment))
        wait_for_all(sends)

    def sum_by_pairs(self, buffer: Tensor) -> None:
        """Replace a buffer (elements,) by the sum over the ranks, for a backend that needs pairs of
        sends and receives, such as NCCL: each step is one pair of whole chunks."""
        ranks = self._ranks
        chunks = [chunk for (chunk,) in cut_into_chunks(buffer, ranks, 1)]
        for step in range(self._steps):
            sent = chunks[(self._rank - step) % ranks]
            received = chunks[(self._rank - step - 1) % ranks]
            adds = step < ranks - 1
            (target,) = view_scratch_like(self._scratch, [received]) if adds else [received]
            pair = []
            # An empty chunk is neither sent nor received.
            if sent.numel():
                pair.append(distributed.P2POp(distributed.isend, sent, self._next))
            if target.numel():
                pair.append(distributed.P2POp(distributed.irecv, target, self._previous))
            wait_for_all(distributed.batch_isend_irecv(pair) if pair else ())
            if adds:
                received += target

    @property
    def _steps(self) -> int:
        return 2 * (self._ranks - 1)

    def _send(self, segment: Tensor) -> Work | None:
        return distributed.isend(segment, self._next) if segment.numel() else None

    def _receive(self, segment: Tensor) -> Work | None:
        return distributed.irecv(segment, self._previous) if segment.numel() else None


def cut_into_chunks(buffer: Tensor, chunks: int, segments: int) -> list[list[Tensor]]:
    """Cut a buffer (elements,) into chunks of segments. Sizes differ by at most one; some may be
    empty."""
    pieces = chunks * segments
    ends = [buffer.numel() * i // pieces for i in range(pieces + 1)]
    flat = [buffer[begin:end] for begin, end in pairwise(ends)]
    return [flat[i : i + segments] for i in range(0, pieces, segments)]


def view_scratch_like(scratch: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """View the start of a buffer (bytes,) as tensors with the sizes and the type of `tensors`, all
    (elements,)."""
    sizes = [tensor.numel() for tensor in tensors]
    whole = scratch[: sum(sizes) * tensors[0].element_size()].view(tensors[0].dtype)
    return list(torch.split(whole, sizes))


class Method(BucketedMethod):
    """The ring, in a thread of its own during backward."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make the ring, with room to receive the largest bucket."""
        buffers = [bucket.buffer for bucket in buckets]
        device = buffers[0].device
        largest = max(buffer.nbytes for buffer in buffers)
        scratch = torch.empty(largest, dtype=torch.uint8, device=device)
        place = self.place
        segment = self.options.segment_kb * 1000
        ring = RingExchange(place.rank, place.world_size, scratch, segment)
        self.background = BackgroundExchange(ring.exchange, threaded=device.type == "cpu")
