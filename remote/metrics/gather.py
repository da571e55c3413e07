"""Collects from a run's records what `RunState` keeps only in part or not at all."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from remote.metrics.steps import StepCollector
from remote.metrics.usage import SampleRow, host_row
from remote.run.run_state import RunState
from remote.run.state import script_metrics
from remote.run.state.host_state import HostState
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from training.wire.events import Record
from training.wire.host_events import GpuSample, HostSample, RankSample
from training.wire.rank_events import Evaluated, Saved, ScriptMetrics, Started, StepFinished
from training.wire.step_block import StepBlock, StepColumns


class MetricValue(NamedTuple):
    """A value that a script reported by its `name`, after `step` (0: unknown)."""

    rank: int
    step: int
    time: float
    name: str
    value: float


class RunCollector:
    """Steps and samples of a run as rows, those of each host and rank on their own."""

    def __init__(self) -> None:
        self.steps = StepCollector()
        self.hosts: dict[int, list[SampleRow]] = defaultdict(list)
        self.ranks: dict[int, list[SampleRow]] = defaultdict(list)
        self.gpus: dict[int, list[SampleRow]] = defaultdict(list)
        self.started: dict[int, Started] = {}
        self.saved: dict[int, list[Saved]] = defaultdict(list)
        self.metrics: list[MetricValue] = []
        self.test_times: dict[tuple[int, int], float] = {}
        """When rank 0 reported the test after an epoch and step."""
        self._known_metrics = script_metrics.RunMetrics()

    def take(self, record: Record, state: RunState) -> None:
        """Take in a record that the state has just taken in."""
        host = state.host(record.host)
        if host is None:
            return
        when = _find_time(record.time, host)
        if isinstance(record.event, HostSample):
            self.hosts[host.index].append(host_row(record.event, when))
            return
        rank = state.source_of(record.event, host)
        # What ranks of an attempt before the restart still report is of no use.
        if rank is not None and state.trains(rank) and record.attempt >= state.attempt:
            self._take_of_rank(record, rank, host)

    def _take_of_rank(self, record: Record, rank: RankState, host: HostState) -> None:
        event = record.event
        when = _find_time(record.time, host)
        match event:
            case StepBlock():
                self._take_steps(event.unpack(), record, rank, host)
            case StepFinished():
                shown_step = rank.shown_step(event) if isinstance(rank, ScriptRank) else event
                self.steps.add(shown_step, record.attempt, when)
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

    def _take_steps(
        self, steps: StepColumns, record: Record, rank: RankState, host: HostState
    ) -> None:
        if isinstance(rank, ScriptRank):
            steps = rank.shown_steps(steps)
        times = [_find_time(min(time, record.time), host) for time in steps.times]
        self.steps.add_steps(steps, record.attempt, times)


def _find_time(time: float, host: HostState) -> float:
    """Return a time of a host's clock by the session's."""
    # A host whose clock is wrong, or that lies, has nothing from before it began.
    return max(time - host.offset, host.began)
