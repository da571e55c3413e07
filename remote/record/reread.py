"""Reads the steps of a part of a recorded run again, where its curves are too coarse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remote import events
from remote.events import decode, expand
from remote.record import files
from remote.record.layout import EVENTS
from remote.run.output.script_readings import Expand
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from training.wire.events import Record, ScriptMetrics, Started, StepFinished

_STEP = re.compile(rb'step\\*": ?(\d{1,18})\b')
"""A step in a line, also of a wire event, whose quotes are escaped. It is far faster than to decode
the line."""


@dataclass(frozen=True)
class Clocks:
    """What turns the times of records into seconds since the run began, see `remote.run.apply`."""

    started: float
    hosts: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, run: RunState) -> Clocks:
        """Those of a run, whose lock is held."""
        return cls(run.started, [(host.offset, host.began) for host in run.hosts])

    def seconds(self, record: Record) -> float:
        """Seconds from the beginning of the run to a record of a host."""
        offset, began = self.hosts[record.host]
        return max(record.time - offset, began) - self.started


def steps(
    folder: Path, ranks: int, clocks: Clocks, low: int, high: int, expand: Expand = expand
) -> Curves:
    """The curves of the steps `low` to `high` of a recorded run. What a user's own program prints
    is read by `expand` from the beginning on, as a line may mean little without those before.

    Raises: OSError.
    """
    curves = Curves(ranks, len(clocks.hosts))
    attempt = 0
    is_printed = expand is not events.expand
    for line in files.lines(folder / EVENTS):
        if not _is_wanted(line, low, high) and not (is_printed and _has_text(line)):
            continue
        for record in _records(line, len(clocks.hosts), expand):
            event = record.event
            if record.attempt > attempt and isinstance(event, Started | StepFinished):
                attempt = record.attempt
                curves.rewind(event.resumed if isinstance(event, Started) else event.step - 1)
            if not isinstance(event, StepFinished | ScriptMetrics) or record.attempt < attempt:
                continue
            if low <= event.step <= high and 0 <= event.rank < ranks:
                curves.take(event, event.rank, event.step, clocks.seconds(record))
    return curves


def _has_text(line: bytes) -> bool:
    """Whether a line has what a rank printed, or the end of that."""
    return b'"text"' in line or b'"exited"' in line


def _is_wanted(line: bytes, low: int, high: int) -> bool:
    """Whether a line may have a step in this part, or a rank's first word in an attempt."""
    return any(low <= int(step) <= high for step in _STEP.findall(line)) or b"resumed" in line


def _records(line: bytes, hosts: int, expand: Expand) -> list[Record]:
    record = decode(line)
    return list(expand(record)) if record and 0 <= record.host < hosts else []
