"""Call a function for several items at the same time, each in a thread of its own.

The threads are daemons: nobody waits for them after Ctrl-C.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

LOOK = 0.1
"""Seconds between two looks at the clock, while results are waited for until a deadline."""


def map_concurrently(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return what the function returns for each item, in their order. Raises what it raises."""
    results = map_within(function, items, math.inf)
    return [results[index] for index in range(len(items))]


def map_within(function: Callable[[T], R], items: Sequence[T], seconds: float) -> dict[int, R]:
    """Return, by the index of the item, what the function returns within so many seconds. The other
    calls go on, and nobody waits for them. Raises what the function raises."""
    deadline = time.monotonic() + seconds
    results: dict[int, R] = {}
    every = LOOK if math.isfinite(seconds) else math.inf
    for completed in iter_completed(function, items, every):
        if completed:
            index, result = completed
            results[index] = result
        if time.monotonic() >= deadline:
            break
    return results


def iter_completed(
    function: Callable[[T], R], items: Sequence[T], every: float = math.inf
) -> Iterator[tuple[int, R] | None]:
    """Yield the index of each item with what the function returns for it, as the calls end; None
    whenever `every` seconds have passed without one. Raises what the function raises."""
    ended: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()

    def call(index: int, item: T) -> None:
        try:
            ended.put((index, function(item)))
        except BaseException as error:  # noqa: BLE001 - raised below, where somebody waits
            ended.put((index, error))

    for index, item in enumerate(items):
        name = f"{getattr(function, '__name__', 'call')} {index}"
        threading.Thread(target=call, args=(index, item), name=name, daemon=True).start()
    timeout = None if every == math.inf else every
    pending = len(items)
    while pending:
        try:
            index, result = ended.get(timeout=timeout)
        except Empty:
            yield None
            continue
        if isinstance(result, BaseException):
            raise result
        pending -= 1
        yield index, result
