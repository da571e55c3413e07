"""The common part of methods that exchange gradients bucket by bucket: when buckets are sent, and
who waits for them.

A method replaces each bucket by the sum over the ranks; on a CPU a thread may do that during
backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Thread

from torch.distributed import Work
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.place import Place
from training.step_formulas import ring_bytes
from training.sync import SyncMethod
from training.sync.common.gradients import Bucket, Gradients

Exchange = Callable[[Iterator[Bucket]], Iterator[Bucket]]
"""A generator that takes buckets as they are launched and yields them, in the same order, as the
sum over the ranks."""


class BucketedMethod(SyncMethod):
    """Gradients travel in buckets: `launch` starts the exchange of one, `exchanged` waits for them.
    A single rank does nothing.

    `options` has `granularity` (parameter, bucket or flat) and `bucket_mb`.
    """

    background: BackgroundExchange
    """Exchanges the buckets. `connect` makes it, unless a method has its own `launch` and
    `exchanged`."""

    def prepare(self, model: Module, optimizer: Optimizer, place: Place, meter: Meter) -> Module:
        """Return the model, with hooks on its parameters."""
        self.place = place
        self.meter = meter
        self._gradients: Gradients | None = None
        if place.world_size == 1:
            return model
        options = self.options
        bucket_sizes = {"parameter": 0.0, "bucket": options.bucket_mb, "flat": math.inf}
        self._gradients = gradients = Gradients(
            model,
            self.launch,
            place.world_size,
            bucket_mb=bucket_sizes[options.granularity],
            gradient_dtype=self.gradient_dtype,
            overlap=options.granularity != "parameter",
        )
        self.connect(gradients.buckets)
        self._payload_bytes = self.payload(gradients.size)
        return model

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Launch buckets in the last backward of a step."""
        return self._gradients.micro(last) if self._gradients else nullcontext()

    def reduce(self) -> None:
        """Launch the remaining buckets, and wait for all."""
        gradients = self._gradients
        if gradients is None:
            return
        gradients.flush()
        exchanged_buckets = self.exchanged()
        while True:
            # Only the wait for a bucket counts, not the unpacking, which other methods do too.
            with self.meter.waiting():
                bucket = next(exchanged_buckets, None)
            if bucket is None:
                break
            gradients.unpack(bucket)
        self.meter.add("bytes_sent", self._payload_bytes)

    def payload(self, size: int) -> int:
        """Return the bytes that this rank sends per step, for gradients of `size` bytes: those of
        a ring, unless a method says otherwise."""
        return ring_bytes(size, self.place.world_size)

    def connect(self, buckets: tuple[Bucket, ...]) -> None:
        """Make what the exchange needs: process groups, buffers to receive."""

    def launch(self, bucket: Bucket) -> None:
        """Start to exchange a bucket. Called in the order of the index, also inside backward."""
        self.background.launch(bucket)

    def exchanged(self) -> Iterator[Bucket]:
        """Wait for each launched bucket, and yield it."""
        return self.background.exchanged()


class BackgroundExchange:
    """Runs an exchange in a thread that lives for one step: from the launch of the first bucket to
    the end of the last one.

    Where `threaded` is false, as on GPUs, the exchange runs in the caller of `exchanged`.
    """

    def __init__(self, exchange: Exchange, threaded: bool) -> None:
        self._exchange = exchange
        self._threaded = threaded
        self._thread: Thread | None = None
        self._launched_buckets: SimpleQueue[Bucket | None] = SimpleQueue()
        self._exchanged_buckets: SimpleQueue[Bucket | BaseException | None] = SimpleQueue()

    def launch(self, bucket: Bucket) -> None:
        """Hand a bucket to the exchange."""
        self._launched_buckets.put(bucket)
        if self._threaded and self._thread is None:
            self._thread = Thread(target=self._run_exchange, name="exchange", daemon=True)
            self._thread.start()

    def exchanged(self) -> Iterator[Bucket]:
        """Yield the buckets of this step as they are done. Raises what the exchange raises."""
        self._launched_buckets.put(None)  # no more buckets come in this step
        if self._thread is None:
            yield from self._exchange(iter(self._launched_buckets.get, None))
            return
        while isinstance(outcome := self._exchanged_buckets.get(), Bucket):
            yield outcome
        self._thread.join()
        self._thread = None
        if outcome is not None:
            raise outcome

    def _run_exchange(self) -> None:
        try:
            for bucket in self._exchange(iter(self._launched_buckets.get, None)):
                self._exchanged_buckets.put(bucket)
            self._exchanged_buckets.put(None)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._exchanged_buckets.put(error)


def segment_count(nbytes: int, segment_bytes: float) -> int:
    """Return the number of segments of about `size` bytes for `nbytes`: at most 1000, as each has a
    cost of its own."""
    return min(max(1, round(nbytes / segment_bytes)), 1000)


def wait_for_all(works: Iterable[Work | None]) -> None:
    """Wait once for each, in order."""
    for work in works:
        if work:
            work.wait()
