"""Does the same for several hosts at once."""

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


def at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What `work` returns for each item, in their order. Raises what it raises for one of them."""
    found = dict(done for done in as_done(work, items) if done)
    return [found[index] for index in range(len(items))]


def done_within(work: Callable[[T], R], items: Sequence[T], seconds: float) -> dict[int, R]:
    """Return, by the index of the item, what `work` returns within so many seconds. The others go
    on, and nobody waits for them. Raises what `work` raises."""
    deadline = time.monotonic() + seconds
    found: dict[int, R] = {}
    every = LOOK if math.isfinite(seconds) else math.inf
    for done in as_done(work, items, every):
        if done:
            index, result = done
            found[index] = result
        if time.monotonic() >= deadline:
            break
    return found


def as_done(
    work: Callable[[T], R], items: Sequence[T], every: float = math.inf
) -> Iterator[tuple[int, R] | None]:
    """The index of each item with what `work` returns for it, as they end; None whenever `every`
    seconds have passed without one. Raises what `work` raises.

    Each has a thread of its own. They are daemons: nobody waits for them after Ctrl-C.
    """
    ended: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()

    def run(index: int, item: T) -> None:
        try:
            ended.put((index, work(item)))
        except BaseException as error:  # noqa: BLE001 - raised below, where somebody waits
            ended.put((index, error))

    for index, item in enumerate(items):
        name = f"{getattr(work, '__name__', 'work')} {index}"
        threading.Thread(target=run, args=(index, item), name=name, daemon=True).start()
    left = len(items)
    while left:
        try:
            index, result = ended.get(timeout=None if every == math.inf else every)
        except Empty:
            yield None
            continue
        if isinstance(result, BaseException):
            raise result
        left -= 1
        yield index, result
