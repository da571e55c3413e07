"""The course of a run's loss, read at a few places of its record: enough for lists of runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from remote.cluster.hosts import RANKS
from remote.record.events_file import EventsReader, compile_scan, find_lines, read_samples
from remote.run.output.script_readings import Expand
from remote.statistics.mean import finite_mean
from training.wire.events import Record, split_steps
from training.wire.rank_events import Evaluated, ScriptMetrics, StepFinished

SAMPLE = 1 << 14
"""Bytes of records that are read at each place: hundreds of steps."""
LARGE = 64 << 20
"""Bytes of records beyond which they are not searched for tests, which takes a while."""
TESTS = compile_scan((Evaluated.wire_name,))
LossPoint = tuple[float, float]
"""A step and a loss."""


class LossCourse(Struct, frozen=True):
    """The losses of a run, in order of their steps."""

    training: Sequence[LossPoint] = ()
    tests: Sequence[LossPoint] = ()


def read_loss_course(folder: Path, place_count: int) -> list[float]:
    """Return the mean training loss at so many places of a run, evenly spaced in its record. Places
    without steps are left out. Raises: OtherFormat; RunFolderError."""
    return [loss for _, loss in _sample_training(folder, place_count)]


def read_loss_points(folder: Path, place_count: int) -> LossCourse:
    """Return the training loss at so many places of a run, and all tests. Raises: OtherFormat;
    RunFolderError."""
    return LossCourse(list(_sample_training(folder, place_count)), list(_find_tests(folder)))


def _sample_training(folder: Path, place_count: int) -> Iterator[LossPoint]:
    # Only once a list of runs draws its losses, see `expander`.
    from remote.run.output.script_expander import Expander

    expand_script = Expander(RANKS, watch=False)
    losses_by_step = defaultdict[float, list[float]](list)
    losses_by_place = list[LossPoint]()
    for place, records in enumerate(read_samples(folder, place_count, SAMPLE)):
        points: list[LossPoint] = [
            (step.event.step, step.event.loss)
            for record in records
            for step in split_steps(record)
            if isinstance(step.event, StepFinished)
        ]
        points = points or list(_find_printed_losses(records, expand_script))
        if any(step for step, _ in points):
            for step, loss in points:
                losses_by_step[step].append(loss)
        elif points:
            # A script may print no steps: then places stand for them.
            losses_by_place.append((place, finite_mean([loss for _, loss in points])))
    # A place may have the steps of one rank, and the next one earlier steps of another rank.
    points_by_step = [(step, finite_mean(losses_by_step[step])) for step in sorted(losses_by_step)]
    yield from _thin_out(points_by_step or losses_by_place, place_count)


def _thin_out(points: Sequence[LossPoint], place_count: int) -> Iterator[LossPoint]:
    """Yield at most so many points, each the mean of neighbours, without those that are no
    number."""
    group_size = -(-len(points) // place_count)
    for begin in range(0, len(points), max(group_size, 1)):
        steps, losses = zip(*points[begin : begin + group_size], strict=True)
        mean_loss = finite_mean(losses)
        if math.isfinite(mean_loss):
            yield finite_mean(steps), mean_loss


def _find_printed_losses(records: Sequence[Record], expand_script: Expand) -> Iterator[LossPoint]:
    """Yield the losses that a script has printed among these records."""
    for record in records:
        for derived_record in expand_script(record):
            event = derived_record.event
            if isinstance(event, StepFinished):
                yield event.step, event.loss
            elif isinstance(event, ScriptMetrics):
                yield from ((event.step, value) for name, value in event.values if name == "loss")


def _find_tests(folder: Path) -> Iterator[LossPoint]:
    with closing(EventsReader(folder)) as reader:
        if reader.size > LARGE:
            return
        reader.require_file()
        while block := reader.read_block():
            for record in reader.parser.parse(find_lines(block, TESTS)):
                event = record.event
                if isinstance(event, Evaluated) and event.rank == 0 and math.isfinite(event.loss):
                    yield event.step, event.loss
