"""The course of a run's training loss at a glance, without reading all of its records."""

from __future__ import annotations

import math
import re
from pathlib import Path

from remote.cluster.hosts import RANKS
from remote.events import decode
from remote.record import files
from remote.record.layout import EVENTS
from remote.run.output.script_readings import Expand, Expander
from remote.statistics.mean import finite_mean
from training.wire.events import ScriptMetrics, StepFinished

BLOCK = 1 << 14
"""Bytes of records that are read at each place: some twenty steps."""
LOSS = re.compile(rb'\\"event\\":\\"step\\"[^{}]{0,99}?\\"loss\\":(-?\d[\d.eE+-]*)')
"""The loss of a step as its rank writes it, or the watch of a user's own program."""


def losses(folder: Path, places: int) -> list[float]:
    """The mean training loss at so many places of a run, evenly spaced in its records; without the
    places where there are no steps. Raises: OSError."""
    found = []
    expand = Expander(RANKS, watch=False)
    with files.opened(folder / EVENTS) as file:
        size = file.seek(0, 2)
        for place in range(places):
            file.seek(size * place // places)
            data = file.read(min(BLOCK, -(-size // places)))
            values = [float(text) for text in LOSS.findall(data)] or _printed(data, expand)
            if values:
                found.append(finite_mean(values))
    return found


def _printed(data: bytes, expand: Expand) -> list[float]:
    """The losses that a user's own program has printed among these records."""
    events = [
        one.event
        for line in data.split(b"\n")
        if b'"text"' in line and (record := decode(line))
        for one in expand(record)
    ]
    told = [event.loss for event in events if isinstance(event, StepFinished)]
    for event in events:
        if isinstance(event, ScriptMetrics):
            told += (value for name, value in event.values if name == "loss")
    return [*filter(math.isfinite, told)]
