"""The course of a run's training loss at a glance, without reading all of its records."""

from __future__ import annotations

import math
import re
from pathlib import Path

from remote.record import files
from remote.record.layout import EVENTS

BLOCK = 1 << 14
"""Bytes of records that are read at each place: some twenty steps."""
LOSS = re.compile(rb'\\"event\\":\\"step\\"[^{}]{0,99}?\\"loss\\":(-?\d[\d.eE+-]*)')
"""The loss of a step as its rank writes it."""


def losses(folder: Path, places: int) -> list[float]:
    """The mean training loss at so many places of a run, evenly spaced in its records; without the
    places where there are no steps. Raises: OSError."""
    found = []
    with files.opened(folder / EVENTS) as file:
        size = file.seek(0, 2)
        for place in range(places):
            file.seek(size * place // places)
            data = file.read(min(BLOCK, -(-size // places)))
            if values := [float(text) for text in LOSS.findall(data)]:
                found.append(math.fsum(values) / len(values))
    return found
