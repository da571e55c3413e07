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
        self._next_rank = (rank + 1) % ranks
        self._previous_rank = (rank - 1) % ranks

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
        chunk_segments = segment_count(buffer.nbytes // ranks, self._segment)
        chunks = cut_into_chunks(buffer, ranks, chunk_segments)
        received_segments: list[Tensor] = []
        for step in range(self._step_count):
            received_segments += chunks[(self._rank - step - 1) % ranks]
        receive_count = len(received_segments)
        # The first half of the steps adds; the second half copies sums that are final.
        added_count = receive_count // 2
        receive_buffers = [
            *view_scratch_like(self._scratch, received_segments[:added_count]),
            *received_segments[added_count:],
        ]
        # All receives start at once, so no sender waits for one.
        pending_receives = [self._start_receive(segment) for segment in receive_buffers]
        pending_sends = [self._start_send(segment) for segment in chunks[self._rank]]
        for position, (receive, segment) in enumerate(
            zip(pending_receives, received_segments, strict=True)
        ):
            wait_for_all([receive])
            if position < added_count:
                segment += receive_buffers[position]
            if position + chunk_segments < receive_count:
                pending_sends.append(self._start_send(segment))
        wait_for_all(pending_sends)

    def sum_by_pairs(self, buffer: Tensor) -> None:
        """Replace a buffer (elements,) by the sum over the ranks, for a backend that needs pairs of
        sends and receives, such as NCCL: each step is one pair of whole chunks."""
        ranks = self._ranks
        chunks = [chunk for (chunk,) in cut_into_chunks(buffer, ranks, 1)]
        for step in range(self._step_count):
            sent_chunk = chunks[(self._rank - step) % ranks]
            received_chunk = chunks[(self._rank - step - 1) % ranks]
            is_added = step < ranks - 1
            (receive_buffer,) = (
                view_scratch_like(self._scratch, [received_chunk]) if is_added else [received_chunk]
            )
            pair_operations = []
            # An empty chunk is neither sent nor received.
            if sent_chunk.numel():
                pair_operations.append(
                    distributed.P2POp(distributed.isend, sent_chunk, self._next_rank)
                )
            if receive_buffer.numel():
                pair_operations.append(
                    distributed.P2POp(distributed.irecv, receive_buffer, self._previous_rank)
                )
            wait_for_all(distributed.batch_isend_irecv(pair_operations) if pair_operations else ())
            if is_added:
                received_chunk += receive_buffer

    @property
    def _step_count(self) -> int:
        return 2 * (self._ranks - 1)

    def _start_send(self, segment: Tensor) -> Work | None:
        return distributed.isend(segment, self._next_rank) if segment.numel() else None

    def _start_receive(self, segment: Tensor) -> Work | None:
        return distributed.irecv(segment, self._previous_rank) if segment.numel() else None


def cut_into_chunks(buffer: Tensor, chunks: int, segments: int) -> list[list[Tensor]]:
    """Cut a buffer (elements,) into chunks of segments. Sizes differ by at most one; some may be
    empty."""
    piece_count = chunks * segments
    piece_ends = [buffer.numel() * i // piece_count for i in range(piece_count + 1)]
    all_segments = [
        buffer[piece_begin:piece_end] for piece_begin, piece_end in pairwise(piece_ends)
    ]
    return [all_segments[i : i + segments] for i in range(0, piece_count, segments)]


def view_scratch_like(scratch: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """View the start of a buffer (bytes,) as tensors with the sizes and the type of `tensors`, all
    (elements,)."""
    sizes = [tensor.numel() for tensor in tensors]
    whole_view = scratch[: sum(sizes) * tensors[0].element_size()].view(tensors[0].dtype)
    return list(torch.split(whole_view, sizes))


class Method(BucketedMethod):
    """The ring, in a thread of its own during backward."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make the ring, with room to receive the largest bucket."""
        bucket_buffers = [bucket.buffer for bucket in buckets]
        device = bucket_buffers[0].device
        largest_bytes = max(buffer.nbytes for buffer in bucket_buffers)
        scratch = torch.empty(largest_bytes, dtype=torch.uint8, device=device)
        place = self.place
        segment_bytes = self.options.segment_kb * 1000
        ring = RingExchange(place.rank, place.world_size, scratch, segment_bytes)
        # On a GPU sends and receives are queued on a stream, so no thread is needed.
        self.background = BackgroundExchange(ring.exchange, threaded=device.type == "cpu")
