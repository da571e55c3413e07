"""Points in time: readings of the wall clock; where a GPU computes, events on its present stream,
which are read once it has passed them."""

from __future__ import annotations

import sys
import time
from typing import Any

Point = Any
"""A float, in seconds, or a `torch.cuda.Event`."""


class Clock:
    """Tells the time of a training thread. `on_gpu`: its work is done by a GPU, later on, in the
    order of the stream on which its steps end."""

    def __init__(self) -> None:
        self.on_gpu = False
        self._wants_gpu = False
        self._stream: Any = None

    def use_gpu(self) -> None:
        """Tell the time of the GPU from the next step on."""
        self._wants_gpu = True

    def now(self) -> Point:
        """Return this moment."""
        if not self.on_gpu or self.is_capturing():
            return time.perf_counter()
        event = sys.modules["torch"].cuda.Event(enable_timing=True)
        # On the present stream: it is passed when all work queued until now is done.
        event.record()
        return event

    def is_capturing(self) -> bool:
        """Return True if the GPU only records its work, for a CUDA graph that is run later. To ask
        for events meanwhile would break the graph."""
        return self._wants_gpu and bool(sys.modules["torch"].cuda.is_current_stream_capturing())

    def next_step(self, end: Point) -> Point:
        """Return the start of the next step, when one has ended."""
        if self.on_gpu or self._wants_gpu:
            self._stream = sys.modules["torch"].cuda.current_stream()
        if self.on_gpu == self._wants_gpu:
            return end
        self.on_gpu = self._wants_gpu
        return self.now()

    def is_computing(self, stream: Any) -> bool:
        """Return True if this is the stream of the steps."""
        return self.on_gpu and bool(stream == self._stream)

    def is_beside(self) -> bool:
        """Return True if the present stream is another one."""
        return self.on_gpu and not self.is_computing(sys.modules["torch"].cuda.current_stream())


def has_passed(point: Point) -> bool:
    """Return True if a point can be read."""
    return isinstance(point, float) or bool(point.query())


def seconds_between(begin: Point, end: Point) -> float:
    """Return the seconds between two points that have passed."""
    if isinstance(begin, float) and isinstance(end, float):
        return end - begin
    if isinstance(begin, float) or isinstance(end, float):
        return 0.0  # the step in which it turned out that there is a GPU
    return float(begin.elapsed_time(end)) / 1000
