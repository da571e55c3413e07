"""Finds how far each host is on the way to the first step, and what the start as a whole waits for.
Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from remote.format import duration, exact_duration
from remote.plan.plan import LOG_FILES
from remote.run.findings.script_visibility import sees_nothing
from remote.run.findings.start_waits import Wait, age, find_waits
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import FATES, HostPhase, RankPhase, RunPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank

PATIENCE = 3.0
"""Times as long as a stage usually takes from which on it is longer than usual."""
LEAST_USUAL = 3.0
"""Seconds that count as usual for a stage which took less in the last run."""
SILENT_START = 60.0
"""Seconds of a run up to which a script that shows nothing counts as starting."""
NOT_KNOWN: Mapping[str, float] = {}
FEW_CORES = 0.8
"""The share of the cores of the median host below which they are why a host is late."""


class StartStage(Struct, frozen=True):
    """A part of the start: what is done, and for how many seconds usually."""

    title: str
    activity: str
    """What is done, where nobody in particular is waited for."""
    usual_seconds: float
    host_phases: tuple[HostPhase, ...] = ()
    rank_phases: tuple[RankPhase, ...] = ()
    goal: str = ""
    """What the time was for, after "to"; "" where the title says it."""


_CONNECT = StartStage("connect", "connecting", 2, (HostPhase.WAITING, HostPhase.CONNECTING))
_COPY = StartStage("copy code", "copying code", 4, (HostPhase.DEPLOYING, HostPhase.STARTING))
_BEGINNING = (RankPhase.WAITING, RankPhase.IMPORTING)
_MEETING = (RankPhase.RENDEZVOUS, RankPhase.JOINING)
_JOIN = StartStage("join", "joining the others", 3, rank_phases=_MEETING, goal="join the others")
_JOB_STAGES = (
    _CONNECT,
    _COPY,
    StartStage("import torch", "importing torch", 10, rank_phases=_BEGINNING),
    StartStage("load data", "loading the data", 5, rank_phases=(RankPhase.LOADING,)),
    _JOIN,
)
_SCRIPT_STAGES = (
    _CONNECT,
    _COPY,
    StartStage(
        "start",
        "the script is starting and imports torch",
        15,
        rank_phases=_BEGINNING,
        goal="import torch and start the script",
    ),
    _JOIN,
)


class HostStart(Struct, frozen=True):
    """How far a host is: `stage` is the number of the one that it is in, or of all stages once its
    ranks are ready for the first step."""

    host: HostState
    stage: int
    seconds: Mapping[int, float]
    """Of each stage that is known: how long it took or, of the present one, takes so far."""


class StartSummary(Struct, frozen=True):
    """What the start waits for, what is usual, and whether it takes longer than that."""

    text: str
    usual: str
    is_late: bool


def start_stages(run: RunState) -> Sequence[StartStage]:
    """Return the stages of the start of a run, in order."""
    return _JOB_STAGES if run.plan.job else _SCRIPT_STAGES


def is_starting(run: RunState) -> bool:
    """Return True before the first step of the first attempt; of a script, before anything is seen
    of it, for a while: it may never show anything."""
    if run.attempt or run.step or run.plan.run == LOG_FILES:
        return False
    if run.phase not in (RunPhase.STARTING, RunPhase.TRAINING):
        return False
    if run.plan.job or run.phase is RunPhase.STARTING:
        return True
    return run.elapsed < SILENT_START and sees_nothing(run)


def host_starts(run: RunState, now: float) -> list[HostStart]:
    """Return how far each host is, in their order."""
    ranks_of_host = defaultdict[int, list[RankState]](list)
    for rank in run.processes:
        ranks_of_host[rank.host].append(rank)
    return [_host_start(host, ranks_of_host[host.index], run, now) for host in run.hosts]


def stage_times(run: RunState) -> dict[str, float]:
    """Return how many seconds each stage of the start took on the slowest host, by its goal; only
    those that are known and over."""
    return {stage.goal or stage.title: seconds for stage, seconds in _time_stages(run)}


def title_times(run: RunState) -> dict[str, float]:
    """Return the same by the titles of the stages."""
    return {stage.title: seconds for stage, seconds in _time_stages(run)}


def _time_stages(run: RunState) -> list[tuple[StartStage, float]]:
    starts = host_starts(run, run.now)
    stage_times = []
    for index, stage in enumerate(start_stages(run)):
        times = [start.seconds[index] for start in starts if start.stage > index in start.seconds]
        if times:
            # A host's clock may be a little off.
            stage_times.append((stage, max(0.0, *times)))
    return stage_times


def summarise_start(
    run: RunState, now: float, last_times: Mapping[str, float] = NOT_KNOWN
) -> StartSummary:
    """Return what the start waits for. `last_times`: the seconds of stages in the last run like
    this one, by their titles."""
    stages = start_stages(run)
    starts = host_starts(run, now)
    stage_index = min(start.stage for start in starts)
    if stage_index == len(stages):
        return StartSummary("all ranks are ready, and make the first step", "", is_late=False)
    stage = stages[stage_index]
    hosts_behind = [start for start in starts if start.stage == stage_index]
    waits = find_waits(run, now)
    seconds = max(start.seconds.get(stage_index, 0.0) for start in hosts_behind)
    if waits:
        # Where all join, those that came first have waited for longer, but not for the others.
        seconds = max(wait.seconds for wait in waits)
    parts = [_describe_wait(wait, run) for wait in waits]
    if not parts:
        parts = [f"{stage.activity}, {duration(seconds)}"]
    num_ready = sum(start.stage >= len(stages) - 1 for start in starts)
    if 0 < num_ready < len(starts):
        parts.append(f"{num_ready} of {len(starts)} hosts are ready")
    last_seconds = last_times.get(stage.title)
    usual = "; ".join(_describe_usual(stage, stage_index, starts, hosts_behind, last_seconds))
    usual_seconds = stage.usual_seconds
    if last_seconds is not None:
        # Of a moment, three times as long is a moment, too.
        usual_seconds = max(last_seconds, min(usual_seconds, LEAST_USUAL))
    return StartSummary("; ".join(parts), usual, seconds > PATIENCE * usual_seconds)


def _describe_wait(wait: Wait, run: RunState) -> str:
    """Say for whom the start waits: "waiting for node2: importing torch, 6 s"."""
    progress = f"{wait.progress}, {duration(wait.seconds)}"
    is_only_host = len(run.hosts) == 1 and wait.subject == run.hosts[0].name
    return progress if is_only_host else f"waiting for {wait.subject}: {progress}"


def _host_start(
    host: HostState, ranks: Sequence[RankState], run: RunState, now: float
) -> HostStart:
    stages = start_stages(run)
    seconds: dict[int, float] = {}
    host_stage = sum(bool(stage.host_phases) for stage in stages)
    for index, stage in enumerate(stages[:host_stage]):
        if host.phase in stage.host_phases:
            seconds[index] = age(host.since, run, now)
            return HostStart(host, index, seconds)
        _put_sum(seconds, index, [host.spent.get(phase) for phase in stage.host_phases])
    if host.phase is not HostPhase.READY and not host.hello:
        return HostStart(host, len(seconds), seconds)
    rank_stages = [(_stage_of(rank, stages, host_stage), rank) for rank in ranks]
    current = min((stage for stage, _ in rank_stages), default=host_stage)
    for index in range(host_stage, current):
        for _, rank in rank_stages:
            longest = seconds.get(index, 0.0)
            _put_sum(seconds, index, [rank.spent.get(phase) for phase in stages[index].rank_phases])
            if index in seconds:
                seconds[index] = max(longest, seconds[index])
    if current < len(stages):
        since = [rank.since or host.since for stage, rank in rank_stages if stage == current]
        seconds[current] = max((age(time, run, now) for time in since), default=0.0)
    return HostStart(host, current, seconds)


def _put_sum(seconds: dict[int, float], index: int, spent: Sequence[float | None]) -> None:
    """Note the time of a stage, if any part of it is known."""
    known = [value for value in spent if value is not None]
    if known:
        seconds[index] = sum(known)


def _stage_of(rank: RankState, stages: Sequence[StartStage], first: int) -> int:
    """Return the stage of a rank; one that has died is where it was."""
    phase = rank.exited_from if rank.phase in FATES else rank.phase
    # A script runs from its first line on, most of which imports torch.
    if isinstance(rank, ScriptRank) and phase is RankPhase.TRAINING and not rank.meetings:
        phase = RankPhase.IMPORTING
    for index in range(first, len(stages)):
        if phase in stages[index].rank_phases:
            return index
    return len(stages)


def _describe_usual(
    stage: StartStage,
    index: int,
    starts: Sequence[HostStart],
    behind: Sequence[HostStart],
    last_seconds: float | None,
) -> Iterator[str]:
    """Yield how long a stage takes usually, or has taken the last time, and why it may take longer
    here."""
    text = f"usually takes about {duration(stage.usual_seconds)}"
    if last_seconds is not None:
        text = f"took {exact_duration(last_seconds)} in the last run"
    others = [start.seconds[index] for start in starts if start.stage > index in start.seconds]
    if others:
        text += f", {duration(statistics.median(others))} on the others"
    yield text
    all_cores = [start.host.hello.cores for start in starts if start.host.hello]
    slow_host = behind[0].host
    if slow_host.hello and len(all_cores) > 1:
        cores, median_cores = slow_host.hello.cores, statistics.median_high(all_cores)
        if cores < FEW_CORES * median_cores:
            yield f"{slow_host.name} has {cores:.2g} cores, others {median_cores:.2g}"
