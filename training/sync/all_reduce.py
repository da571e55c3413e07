"""The backend's all-reduce of each bucket, while backward goes on; or, as in a course's listing, of
each parameter after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import distributed

from training.sync.parts import payload
from training.sync.parts.bucketed import Bucketed
from training.sync.parts.gradients import Bucket


@dataclass(frozen=True)
class Options:
    """`granularity`: what travels at once; `parameter`: one after another, each waited for, after
    backward."""

    granularity: Literal["parameter", "bucket", "flat"] = "bucket"
    bucket_mb: float = 2.5

    def __post_init__(self) -> None:
        if not self.bucket_mb > 0:
            raise ValueError(f"bucket_mb={self.bucket_mb:g}: give a number of megabytes above 0")

    def check(self, world_size: int) -> None:
        """Raises: ValueError, for what would do nothing."""
        if self.granularity != "bucket" and self.bucket_mb != 2.5:
            raise ValueError(
                f"bucket_mb={self.bucket_mb:g} only applies with granularity=bucket; remove it"
            )


class Method(Bucketed):
    """Sum over the ranks of what each has divided by their number."""

    def launch(self, bucket: Bucket) -> None:
        """Starts its all-reduce, or makes it at once."""
        if self.options.granularity == "parameter":
            with self.meter.waiting():
                distributed.all_reduce(bucket.buffer)
            self._works.append((bucket, None))
        else:
            self._works.append((bucket, distributed.all_reduce(bucket.buffer, async_op=True)))

    def exchanged(self) -> Iterator[Bucket]:
        """Each bucket when its all-reduce has ended."""
        while self._works:
            bucket, work = self._works.popleft()
            if work:
                work.wait()
            yield bucket

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Nothing is on its way."""
        self._works: deque[tuple[Bucket, distributed.Work | None]] = deque()

    def payload(self, size: int) -> int:
        """A ring's."""
        return payload.ring(size, self.place.world_size)
