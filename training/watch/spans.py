"""Times in which a function of torch runs, of each thread. Where they nest, as a wait within the
load of a batch, only the outermost counts."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident

from .clock import Clock, Point


class Spans:
    """The functions that run now. `counts` says whether those of the present thread matter."""

    def __init__(self, clock: Clock, counts: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_counted = counts
        self._spans_by_thread: dict[int, list[Point | None]] = {}

    def begin(self) -> None:
        """Note that a function begins."""
        spans = self._spans_by_thread.setdefault(get_ident(), [])
        spans.append(self._clock.now() if not spans and self._is_counted() else None)

    def skip(self) -> None:
        """Note that a function begins whose time does not matter."""
        self._spans_by_thread.setdefault(get_ident(), []).append(None)

    def end(self) -> Point | None:
        """Note that the function ends that began last. Return when it began, if it counts."""
        spans = self._spans_by_thread.get(get_ident())
        return spans.pop() if spans else None
