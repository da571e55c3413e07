"""Readings of logs, as text and as JSON."""

from __future__ import annotations

import math
from typing import Any

from remote.formats.reading import Reading, ReadingKind
from remote.sanitise import one_line

_KINDS = {
    ReadingKind.STEP: "step",
    ReadingKind.EVALUATION: "evaluation",
    ReadingKind.OTHER: "other values",
}


def describe_reading(reading: Reading) -> str:
    """Format a reading in one line: "step 42 of 500, epoch 2: loss 0.5, lr 0.001"."""
    place = _KINDS[reading.kind]
    if reading.step:
        if reading.kind is not ReadingKind.STEP:
            place += ", step"
        place += f" {reading.step:,}"
        if reading.steps:
            place += f" of {reading.steps:,}"
    if reading.epoch:
        place += f", epoch {reading.epoch:.6g}"
    if reading.rank >= 0:
        place += f", rank {reading.rank}"
    values = ", ".join(f"{name} {value:.6g}" for name, value in reading.values.items())
    return one_line(f"{place}: {values}")


def reading_json(reading: Reading) -> dict[str, Any]:
    """Return a reading for JSON, without what is unknown."""
    fields: dict[str, Any] = {"kind": reading.kind.value}
    for name in ("step", "steps", "epoch"):
        if getattr(reading, name):
            fields[name] = getattr(reading, name)
    if reading.rank >= 0:
        fields["rank"] = reading.rank
    fields["values"] = finite_values(reading.values)
    return fields


def finite_values(values: dict[str, float]) -> dict[str, float | str]:
    """Return values for JSON, which knows no NaN: those that are not finite become text."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
