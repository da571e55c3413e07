"""Readings as tests write them."""

from __future__ import annotations

from functools import partial

from remote.formats.reading import Reading, ReadingKind


def _reading(
    kind: ReadingKind,
    number: int,
    more_values: dict[str, float] | None = None,
    /,
    *,
    epoch: float = 0.0,
    steps: int = 0,
    rank: int = -1,
    **values: float,
) -> Reading:
    return Reading(kind, number, epoch, values | (more_values or {}), steps, rank)


step = partial(_reading, ReadingKind.STEP)
evaluation = partial(_reading, ReadingKind.EVALUATION)
other = partial(_reading, ReadingKind.OTHER)
