"""How far a run has come that has not ended, from the beginning and the end of its record."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from remote import events
from remote.events import Clock, Parsed, decode, expand
from remote.record import files
from remote.record.layout import EVENTS
from remote.run.output.script_readings import Expand
from remote.run.run_state import AGE_TOLERANCE, began_here
from remote.statistics.mean import finite_mean
from training.wire.events import (
    Ended,
    Evaluated,
    Hello,
    Launched,
    Metrics,
    Record,
    Started,
    Step,
)

BLOCK = 1 << 18
"""Bytes that are read of each end: some hundred steps. Live runs may have written gigabytes."""
FAR = 64 << 20
"""Bytes from the end on in which the newest evaluation is looked for: there may be thousands of
steps behind it."""


@dataclass(frozen=True)
class Latest:
    """`step` is the newest of any rank, `steps` how many there will be; 0 where none is known.
    `loss` is the mean over the ranks of their newest, `step_seconds` the mean of the newest steps;
    `test_loss` and `accuracy` are of the newest evaluation. `diverged`: the newest loss of a rank
    is no finite number; of a user's own program, infinite. `started` is a Unix time, `elapsed` how
    many seconds later the newest record is. What is not known is None."""

    step: int = 0
    steps: int = 0
    loss: float | None = None
    step_seconds: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    started: float | None = None
    elapsed: float | None = None
    diverged: bool = False


def latest(folder: Path, failed: files.Failed = files.ignore, expand: Expand = expand) -> Latest:
    """Read what the run has said first and last. A record that cannot be read tells nothing;
    `failed` is told why."""
    try:
        records = list(_records(_ends(folder / EVENTS), expand))
        is_ours = expand is events.expand
        tested = _evaluated(folder / EVENTS) if is_ours else None
    except OSError as error:
        failed(error)
        return Latest()
    if not records:
        return Latest()
    began = 0
    steps = list[Step]()
    printed = dict[int, float]()
    for event in (record.event for record in records):
        match event:
            case Started() | Parsed():
                began = event.steps or began
            case Step():
                steps.append(event)
            case Metrics() if not is_ours:
                printed[event.rank] = dict(event.values).get("loss", math.nan)
    newest = {step.rank: step for step in steps}
    started, elapsed = _duration(records)
    return Latest(
        max((step.step for step in newest.values()), default=0),
        began,
        _mean([*(step.loss for step in newest.values()), *printed.values()]),
        _mean(step.seconds for step in steps),
        _mean([tested.loss]) if tested else None,
        _mean([tested.accuracy]) if tested else None,
        started,
        elapsed,
        any(math.isinf(one.loss) or (is_ours and one.loss != one.loss) for one in newest.values()),
    )


def _duration(records: Sequence[Record]) -> tuple[float, float]:
    """Return when the run began and how many seconds later the newest record is, as
    `remote.run.apply` does: by one clock, and by what hosts tell of the run's age where
    its first launcher has not recorded it here."""
    saw_start = began_here(records[0])
    offsets = dict[int, float]()
    first = math.inf
    begun = math.inf
    newest = -math.inf
    for record in records:
        event = record.event
        if isinstance(event, Clock):
            offsets[event.on] = event.offset
        if isinstance(event, Hello):  # after which the clock of its host is measured
            continue
        when = record.time - offsets.get(record.host, 0.0)
        newest = max(newest, when)
        age = 0.0 if saw_start or not isinstance(event, Launched | Ended) else event.age
        first = min(first, when)
        begun = min(begun, when - age)
    if newest < first:
        return records[0].time, 0.0
    started = max(begun, first - AGE_TOLERANCE)
    return started, newest - started


def _ends(path: Path) -> Iterator[bytes]:
    """The whole lines at the beginning and at the end of a file. Raises: OSError."""
    with files.opened(path) as file:
        first = file.read(BLOCK)
        yield from first.splitlines()
        size = file.seek(0, os.SEEK_END)
        if size > len(first):
            file.seek(max(len(first), size - BLOCK))
            file.readline()  # most of which may be before
            yield from file.read(BLOCK).splitlines()


def _evaluated(path: Path) -> Evaluated | None:
    """The newest evaluation of a record, from its end on. Raises: OSError."""
    with files.opened(path) as file:
        end = file.seek(0, os.SEEK_END)
        least = max(0, end - FAR)
        while end > least:
            begin = max(least, end - BLOCK)
            file.seek(begin)
            block = file.read(end - begin)
            first = block.find(b"\n") + 1 if begin else 0  # the line before is of the next block
            if b"evaluated" in block:
                lines = [line for line in block[first:].split(b"\n") if b"evaluated" in line]
                for line in reversed(lines):
                    found = [one.event for one in _records([line], events.expand)]
                    tested = [one for one in found if isinstance(one, Evaluated)]
                    if tested:
                        return tested[-1]
            end = begin + first if 0 < first < len(block) else begin
    return None


def _records(lines: Iterable[bytes], expand: Expand) -> Iterator[Record]:
    for line in lines:
        record = decode(line)
        if record is not None:
            yield from expand(record)


def _mean(values: Iterable[float]) -> float | None:
    mean = finite_mean(values)
    return None if math.isnan(mean) else mean
