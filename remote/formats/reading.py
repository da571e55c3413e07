"""The values that a log line reports."""

from __future__ import annotations

from enum import StrEnum

from training.wire.records import Comparable, immutable


class ReadingKind(StrEnum):
    """What the values of a reading belong to."""

    STEP = "step"
    EVALUATION = "evaluation"
    OTHER = "other"


STEP = ReadingKind.STEP
EVALUATION = ReadingKind.EVALUATION
OTHER = ReadingKind.OTHER


@immutable
class Reading(Comparable):
    """Values that a program printed, by normalised name where there is one (`remote.formats.names`)
    and as printed otherwise."""

    kind: ReadingKind
    step: int
    """Of the whole run, from 1, also if the program counts from 0 or anew in each epoch; 0:
    unknown."""
    epoch: float
    """From 1, or how many epochs have passed if the program prints a fraction; 0: unknown."""
    values: dict[str, float]
    steps: int = 0
    """Of the whole run; 0: unknown."""
    rank: int = -1
    """That of a prefix such as `[rank3]:`; -1 without one."""


UNDERSTOOD = Reading(OTHER, 0, 0.0, {})
"""The reading of a line that belongs to a format and has no values by itself."""
