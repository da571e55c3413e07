"""What a run's records tell beyond `RunState`, which keeps it only in part or not at all."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from remote.metrics.steps import StepColumns
from remote.metrics.usage import GpuRow, HostRow, RankRow, gpu_row, host_row, rank_row
from remote.run.run_state import RunState
from remote.run.state import script_metrics as metrics
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from training.wire.events import (
    Evaluated,
    GpuSample,
    HostSample,
    RankSample,
    Record,
    Saved,
    ScriptMetrics,
    Started,
    StepFinished,
)


class MetricValue(NamedTuple):
    """A value that a user's own program told, by its `name`, after `step` (0: unknown)."""

    rank: int
    step: int
    time: float
    name: str
    value: float


class Gathered:
    """Steps and samples as rows, each host's and rank's own. `tested` tells when rank 0 reported
    the test after an epoch and step."""

    def __init__(self) -> None:
        self.steps = StepColumns()
        self.hosts: dict[int, list[HostRow]] = defaultdict(list)
        self.ranks: dict[int, list[RankRow]] = defaultdict(list)
        self.gpus: dict[int, list[GpuRow]] = defaultdict(list)
        self.started: dict[int, Started] = {}
        self.saved: dict[int, list[Saved]] = defaultdict(list)
        self.metrics: list[MetricValue] = []
        self._known = metrics.RunMetrics()
        self.tested: dict[tuple[int, int], float] = {}

    def take(self, record: Record, state: RunState) -> None:
        """Take in a record that the state has just taken in."""
        host = state.host(record.host)
        if host is None:
            return
        when = max(record.time - host.offset, host.began)
        if isinstance(record.event, HostSample):
            self.hosts[host.index].append(host_row(record.event, when))
            return
        rank = state.rank_of(getattr(record.event, "rank", -1), host)
        if rank is not None and record.attempt >= state.attempt:
            self._take_of_rank(record, rank, when)

    def _take_of_rank(self, record: Record, rank: RankState, when: float) -> None:
        match record.event:
            case StepFinished():
                self.steps.add(record.event, record.attempt, when)
            case RankSample():
                self.ranks[rank.rank].append(rank_row(record.event, when))
            case GpuSample() if rank.gpu is record.event:
                self.gpus[rank.rank].append(gpu_row(record.event, when))
            case Started():
                self.started[rank.rank] = rank.begun or record.event
                self.steps.resume(record.attempt, record.event.resumed)
            case Saved():
                self.saved[rank.rank].append(record.event)
            case ScriptMetrics(step=step) if isinstance(rank, ScriptRank):
                told = self._known.take(record.event, rank.step).values
                of = (rank.rank, step, when)
                self.metrics += (MetricValue(*of, name, value) for name, value in told)
            case Evaluated() if rank.rank == 0:
                self.tested[record.event.epoch, record.event.step] = when
