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

OPTIONS = {
    "granularity": "granularity of buckets",
    "bucket_mb": "bucket_mb",
}


class Method(BucketedMethod):
    """The ranks of a host have the same `group_rank`; the lowest of them is the leader."""

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make a group per host and one of the leaders. All ranks make all groups in one order."""
        rank = self.place.rank
        device = buckets[0].buffer.device
        ranks_by_host = self._ranks_by_host(device)
        self._host_count = len(ranks_by_host)
        for host_ranks in ranks_by_host:
            host_group = new_group(host_ranks)
            if rank in host_ranks:
                self._host_group = host_group
                self._leader = host_ranks[0]
                self._is_alone = len(host_ranks) == 1
        self._leader_group = new_group([host_ranks[0] for host_ranks in ranks_by_host])
        self._is_leader = rank == self._leader
        # On a GPU collectives are only queued, so no thread is needed to overlap them.
        self.background = BackgroundExchange(self._exchange, threaded=device.type == "cpu")

    def payload(self, size: int) -> int:
        """Return the bytes of a ring between the hosts, on leaders only."""
        return hierarchy_bytes(size, self._host_count, leader=self._is_leader)

    def _ranks_by_host(self, device: torch.device) -> list[list[int]]:
        """Return the ranks of each host."""
        own_host = torch.tensor([self.place.group_rank], device=device)
        gathered_hosts = [torch.empty_like(own_host) for _ in range(self.place.world_size)]
        with self.meter.waiting():
            distributed.all_gather(gathered_hosts, own_host)
        ranks_by_host: dict[int, list[int]] = {}
        for rank, host in enumerate(map(int, gathered_hosts)):
            ranks_by_host.setdefault(host, []).append(rank)
        return [ranks for _, ranks in sorted(ranks_by_host.items())]

    def _exchange(self, launched: Iterator[Bucket]) -> Iterator[Bucket]:
        """Yield each bucket as the sum over the ranks. While one travels between the hosts, the
        next is reduced inside them."""
        in_flight: tuple[Bucket, Work | None] | None = None
        for bucket in launched:
            work = self._send_outwards(bucket.buffer)
            if in_flight:
                yield self._spread_inside(*in_flight)
            in_flight = bucket, work
        if in_flight:
            yield self._spread_inside(*in_flight)

    def _send_outwards(self, buffer: Tensor) -> Work | None:
        if not self._is_alone:
            distributed.reduce(buffer, self._leader, group=self._host_group)
        if self._is_leader and self._host_count > 1:
            return distributed.all_reduce(buffer, group=self._leader_group, async_op=True)
        return None

    def _spread_inside(self, bucket: Bucket, work: Work | None) -> Bucket:
        wait_for_all([work])
        if not self._is_alone:
            distributed.broadcast(bucket.buffer, self._leader, group=self._host_group)
        return bucket
