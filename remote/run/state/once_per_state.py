"""Keeps what was computed of a run until its state changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Protocol, TypeVar
from weakref import ref


class Versioned(Protocol):
    """What says by a number whether it has changed."""

    version: int


RunT = TypeVar("RunT", bound=Versioned)
ResultT = TypeVar("ResultT")


def once_per_state(compute: Callable[[RunT], ResultT]) -> Callable[[RunT], ResultT]:
    """Have a function compute once for each state of a run: several parts of a frame ask for what
    takes a look at all ranks. Only the newest result is kept."""
    newest: tuple[ref[RunT], int, ResultT] | None = None

    @wraps(compute)
    def look_up(run: RunT) -> ResultT:
        nonlocal newest
        kept = newest  # other threads may ask of another run
        if kept and kept[0]() is run and kept[1] == run.version:
            return kept[2]
        result = compute(run)
        newest = (ref(run), run.version, result)
        return result

    return look_up
