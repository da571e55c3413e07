"""The backend's all-reduce of each bucket during backward; or, as in course exercises, of each
parameter after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from torch import distributed

from training import payload
from training.sync.common.bucketed import Bucketed
from training.sync.common.gradients import Bucket

OPTIONS = {
    "granularity": {
        "default": "bucket",
        "help": "what is exchanged at once: each parameter, buckets, or all gradients",
        "choices": ("parameter", "bucket", "flat"),
    },
    "bucket_mb": {
        "default": 2.5,
        "help": "size in MB at which a bucket is closed",
        "above": 0,
        "requires": {"granularity": ("bucket",)},
    },
}


class Method(Bucketed):
    """The sum over the ranks of gradients that each rank has divided by their number."""

    def launch(self, bucket: Bucket) -> None:
        """Starts the all-reduce of a bucket, or makes it at once."""
        if self.options.granularity == "parameter":
            with self.meter.waiting():
                distributed.all_reduce(bucket.buffer)
            self._works.append((bucket, None))
        else:
            self._works.append((bucket, distributed.all_reduce(bucket.buffer, async_op=True)))

    def exchanged(self) -> Iterator[Bucket]:
        """Yields each bucket when its all-reduce has ended."""
        while self._works:
            bucket, work = self._works.popleft()
            if work:
                work.wait()
            yield bucket

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Starts with nothing in flight."""
        self._works: deque[tuple[Bucket, distributed.Work | None]] = deque()

    def payload(self, size: int) -> int:
        """The bytes of a ring."""
        return payload.ring(size, self.place.world_size)
