"""What a log line tells."""

from __future__ import annotations

from enum import StrEnum

from training.wire.records import immutable


class Kind(StrEnum):
    """What the values of a reading belong to."""

    STEP = "step"
    EVALUATION = "evaluation"
    OTHER = "other"


STEP = Kind.STEP
EVALUATION = Kind.EVALUATION
OTHER = Kind.OTHER


@immutable
class Reading:
    """Values that a program printed, by normalised name where there is one (`remote.formats.names`)
    and as printed otherwise.

    `step` counts the steps of the whole run from 1, also where the program counts from 0 or anew in
    each epoch; 0: unknown. `epoch` is the number of the epoch from 1, or how many epochs have
    passed where the program prints a fraction; 0: unknown. `steps` are those of the whole run, 0 if
    unknown. `rank` is that of a prefix such as `[rank3]:`, -1 without one.
    """

    kind: Kind
    step: int
    epoch: float
    values: dict[str, float]
    steps: int = 0
    rank: int = -1


UNDERSTOOD = Reading(OTHER, 0, 0.0, {})
"""Of a line that belongs to a format and tells nothing by itself."""


def step(
    number: int,
    other: dict[str, float] | None = None,
    /,
    *,
    epoch: float = 0.0,
    steps: int = 0,
    rank: int = -1,
    **values: float,
) -> Reading:
    """The reading of a training step; for samples."""
    return Reading(STEP, number, epoch, values | (other or {}), steps, rank)


def evaluation(
    number: int,
    other: dict[str, float] | None = None,
    /,
    *,
    epoch: float = 0.0,
    steps: int = 0,
    rank: int = -1,
    **values: float,
) -> Reading:
    """The reading of an evaluation; for samples."""
    return Reading(EVALUATION, number, epoch, values | (other or {}), steps, rank)


def other(
    number: int,
    other: dict[str, float] | None = None,
    /,
    *,
    epoch: float = 0.0,
    steps: int = 0,
    rank: int = -1,
    **values: float,
) -> Reading:
    """The reading of other values; for samples."""
    return Reading(OTHER, number, epoch, values | (other or {}), steps, rank)
