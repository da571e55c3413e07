"""Collects from a run's records what `RunState` keeps only in part or not at all."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from remote.metrics.step_collector import StepCollector
from remote.metrics.step_index import StepIndex, StepPart
from remote.metrics.step_rows import HostClock, to_session_time
from remote.metrics.usage import MOST_ROWS, SampleCollector, host_row
from remote.record.step_chunks import PlacedBlock
from remote.run.run_state import RunState
from remote.run.state import script_metrics
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from training.wire.events import Record
from training.wire.host_events import GpuSample, HostSample, RankSample
from training.wire.rank_events import Evaluated, Saved, ScriptMetrics, Started, StepFinished
from training.wire.step_block import StepBlock


class MetricValue(NamedTuple):
    """A value that a script reported by its `name`, after `step` (0: unknown)."""

    rank: int
    step: int
    time: float
    name: str
    value: float


class MetricCollector:
    """Collects the values that scripts reported: all of a short run, one in every few of each
    metric and rank of a long one."""

    def __init__(self, most_values: int) -> None:
        self._most_values = most_values
        self._count = 0
        self._collected: dict[tuple[int, str], SampleCollector] = {}

    def append(self, value: MetricValue) -> None:
        """Take in the next value."""
        collector = self._collected.get((value.rank, value.name))
        if collector is None:
            collector = SampleCollector(self._most_values)
            self._collected[value.rank, value.name] = collector
        collector.append((self._count, value.step, value.time, value.value))
        self._count += 1

    def list_values(self, zero: float) -> tuple[MetricValue, ...]:
        """Return the values in the order in which they came, with times since `zero`."""
        numbered_values = []
        for (rank, name), collector in self._collected.items():
            for number, step, time, figure in collector.rows(4).tolist():
                value = MetricValue(rank, int(step), time - zero, name, figure)
                numbered_values.append((number, value))
        return tuple(value for _, value in sorted(numbered_values, key=itemgetter(0)))


class RunCollector:
    """Steps and samples of a run as rows, those of each host and rank on their own."""

    def __init__(self, *, keeps_all: bool = False) -> None:
        """`keeps_all`: of a long run as well. Of its steps, keep at least where they stand."""
        most = sys.maxsize if keeps_all else MOST_ROWS
        self.steps = StepCollector()
        self.step_index = StepIndex() if keeps_all else None
        self.hosts: dict[int, SampleCollector] = defaultdict(partial(SampleCollector, most))
        self.ranks: dict[int, SampleCollector] = defaultdict(partial(SampleCollector, most))
        self.gpus: dict[int, SampleCollector] = defaultdict(partial(SampleCollector, most))
        self.started: dict[int, Started] = {}
        self.saved: dict[int, list[Saved]] = defaultdict(list)
        self.metrics = MetricCollector(most)
        self.test_times: dict[tuple[int, int], float] = {}
        """When rank 0 reported the test after an epoch and step."""
        self._known_metrics = script_metrics.RunMetrics()

    def take(
        self, record: Record, state: RunState, line_offset: int, placed: PlacedBlock | None = None
    ) -> None:
        """Take in a record that the state has just taken in, and that stands in the line of the
        run's record that begins at this byte. `placed`: its block of steps, if its columns stay
        where they are."""
        host = state.host(record.host)
        if host is None:
            return
        clock = HostClock(host.offset, host.began)
        time = record.time
        if isinstance(record.event, ScriptMetrics):
            time = record.event.made_at(time)
        when = to_session_time(time, clock)
        if isinstance(record.event, HostSample):
            self.hosts[host.index].append(host_row(record.event, when))
            return
        rank = state.source_of(record.event, host)
        # What ranks of an attempt before the restart still report is of no use.
        if rank is not None and state.trains(rank) and record.attempt >= state.attempt:
            if isinstance(record.event, StepBlock):
                self._take_block(placed or record.event, record, line_offset, clock)
            else:
                self._take_of_rank(record, rank, when)

    def find_parts(
        self, folder: Path, zero: float, unknown: tuple[str, ...]
    ) -> Callable[[], Iterator[StepPart]] | None:
        """Return what yields the parts in which all steps of the run in a folder are read, with
        times since `zero` and without the columns that are `unknown`; None if they are those of
        `steps`, or not all were to be kept."""
        if self.step_index is None or self.steps.stride == 1:
            return None
        return partial(self.step_index.list_parts, folder, self.steps.resumed_steps, zero, unknown)

    def _take_block(
        self, block: StepBlock | PlacedBlock, record: Record, line_offset: int, clock: HostClock
    ) -> None:
        self.steps.add_block(block, record, clock)
        if self.step_index:
            self.step_index.add_block(block, line_offset, clock)

    def _take_of_rank(self, record: Record, rank: RankState, when: float) -> None:
        event = record.event
        match event:
            case StepFinished():
                self.steps.add(event, record.attempt, when)
                if self.step_index:
                    self.step_index.add(event, record.attempt, when)
            case RankSample():
                self.ranks[rank.rank].append((when, event.cpu, event.memory))
            # The state takes no sample of a GPU that the rank does not use.
            case GpuSample() if rank.gpu is event:
                gpu_figures = (event.use, event.memory_used, event.memory_total, event.clock)
                self.gpus[rank.rank].append((when, *gpu_figures))
            case Started():
                # The state's own, which is fit to be shown whatever a rank has sent.
                self.started[rank.rank] = rank.begun or event
                self.steps.resume(record.attempt, event.resumed)
            case Saved():
                self.saved[rank.rank].append(event)
            case ScriptMetrics() if isinstance(rank, ScriptRank):
                for metric_name, value in self._known_metrics.take(event, rank.step).values:
                    self.metrics.append(
                        MetricValue(rank.rank, event.step, when, metric_name, value)
                    )
            case Evaluated() if rank.rank == 0:
                self.test_times[event.epoch, event.step] = when
