"""Reduces inside each host, then between the hosts, then broadcasts inside each host: only one rank
of each host, its leader, uses the network."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, distributed
from torch.distributed import Work

from training.rendezvous import new_group
from training.step_formulas import hierarchy_bytes
from training.sync.common.bucketed import BackgroundExchange, BucketedMethod, wait_for_all
from training.sync.common.gradients import Bucket
from training.sync.common.options import BUCKET_MB, GRANULARITY_OF_BUCKETS

OPTIONS = {
    "granularity": GRANULARITY_OF_BUCKETS,
    "bucket_mb": BUCKET_MB,
}


class Method(BucketedMethod):
    """The ranks of a host have the same `group_rank`; the lowest of them is the leader."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make a group per host and one of the leaders. All ranks make all groups in one order."""
        hosts = self._hosts(buckets[0].buffer.device)
        inside = [new_group(host) for host in hosts]
        self._between = new_group([host[0] for host in hosts])
        number = next(i for i, host in enumerate(hosts) if self.place.rank in host)
        self._inside, self._host, self._host_count = inside[number], hosts[number], len(hosts)
        self.background = BackgroundExchange(
            self._exchange, threaded=buckets[0].buffer.device.type == "cpu"
        )

    def payload(self, size: int) -> int:
        """Return the bytes of a ring between the hosts, on leaders only."""
        return hierarchy_bytes(size, self._host_count, leader=self._leads)

    @property
    def _leads(self) -> bool:
        return self.place.rank == self._host[0]

    def _hosts(self, device: torch.device) -> list[list[int]]:
        """Return the ranks of each host."""
        own = torch.tensor([self.place.group_rank], device=device)
        said = [torch.empty_like(own) for _ in range(self.place.world_size)]
        with self.meter.waiting():
            distributed.all_gather(said, own)
        numbers = [int(number) for number in said]
        return [
            [rank for rank, of in enumerate(numbers) if of == host] for host in sorted(set(numbers))
        ]

    def _exchange(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Yield each bucket as the sum over the ranks. While one travels between the hosts, the
        next is reduced inside them."""
        before: tuple[Bucket, Work | None] | None = None
        for bucket in launched:
            work = self._outwards(bucket.buffer)
            if before:
                yield self._inwards(*before)
            before = bucket, work
        if before:
            yield self._inwards(*before)

    def _outwards(self, buffer: Tensor) -> Work | None:
        if len(self._host) > 1:
            distributed.reduce(buffer, self._host[0], group=self._inside)
        if self._leads and self._host_count > 1:
            return distributed.all_reduce(buffer, group=self._between, async_op=True)
        return None

    def _inwards(self, bucket: Bucket, work: Work | None) -> Bucket:
        wait_for_all([work])
        if len(self._host) > 1:
            distributed.broadcast(bucket.buffer, self._host[0], group=self._inside)
        return bucket
