"""What is read of logs, as text and as JSON."""

from __future__ import annotations

import math
from typing import Any

from remote.formats import Kind, Reading
from remote.sanitise import one_line

_KINDS = {Kind.STEP: "step", Kind.EVALUATION: "evaluation", Kind.OTHER: "other values"}


def told(reading: Reading) -> str:
    """Format a reading in one line: "step 42 of 500, epoch 2: loss 0.5, lr 0.001"."""
    place = _KINDS[reading.kind]
    if reading.step:
        at = "" if reading.kind is Kind.STEP else ", step"
        place += f"{at} {reading.step:,}" + (f" of {reading.steps:,}" if reading.steps else "")
    if reading.epoch:
        place += f", epoch {reading.epoch:.6g}"
    if reading.rank >= 0:
        place += f", rank {reading.rank}"
    values = ", ".join(f"{name} {value:.6g}" for name, value in reading.values.items())
    return one_line(f"{place}: {values}")


def as_json(reading: Reading) -> dict[str, Any]:
    """A reading for JSON: what is not known is left out."""
    where = {"step": reading.step, "steps": reading.steps, "epoch": reading.epoch}
    found = {name: value for name, value in where.items() if value}
    if reading.rank >= 0:
        found["rank"] = reading.rank
    return {"kind": reading.kind.value, **found, "values": finite(reading.values)}


def finite(values: dict[str, float]) -> dict[str, float | str]:
    """Values for JSON, which knows no NaN: those that are not finite become text."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}
