"""The backend's all-reduce of each bucket during backward; or, as in course exercises, of each
parameter after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from torch import distributed
from torch.distributed import Work

from training.sync.common.bucketed import BucketedMethod
from training.sync.common.gradients import Bucket

OPTIONS = {
    "granularity": "granularity",
    "bucket_mb": "bucket_mb",
}


class Method(BucketedMethod):
    """The sum over the ranks of gradients that each rank has divided by their number."""

    def launch(self, bucket: Bucket) -> None:
        """Start the all-reduce of a bucket, or make it at once."""
        if self.options.granularity == "parameter":
            # At once, as in the exercises: the next parameter waits for this one.
            with self.meter.waiting():
                distributed.all_reduce(bucket.buffer)
            self._works.append((bucket, None))
        else:
            self._works.append((bucket, distributed.all_reduce(bucket.buffer, async_op=True)))

    def exchanged(self) -> Iterator[Bucket]:
        """Yield each bucket when its all-reduce has ended."""
        while self._works:
            bucket, work = self._works.popleft()
            if work:
                work.wait()
            yield bucket

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Start with nothing in flight."""
        self._works: deque[tuple[Bucket, Work | None]] = deque()
