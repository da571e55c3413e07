"""What one recorded run amounts to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from remote.jsonl import load
from remote.limits import LIMITS
from remote.metrics.conditions import UNKNOWN, Conditions, conditions
from remote.metrics.gather import Gathered, MetricValue
from remote.metrics.steps import StepTable
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage, gpu_usage, host_usage, rank_usage
from remote.metrics.waiting import Waiting, waiting
from remote.plan.expected import GRADIENT
from remote.plan.plan import Plan, Script
from remote.record import files, summary
from remote.record.events_file import read_records
from remote.record.layout import PLAN
from remote.record.read import load_plan
from remote.run.apply import apply_record
from remote.run.findings.script_visibility import unused_rules
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import Verdict
from remote.run.state.progress import Restart
from remote.run.state.rank_state import RankState
from remote.run.state.types import Stall
from training.job import Job
from training.wire.events import Epoch, Saved


@dataclass(frozen=True)
class HostFigures:
    """A host. `facts` are those of its `Hello`; empty where it said none. `machine_cores` are all
    cores of the machine that it is on, 0 where they are not known."""

    name: str
    facts: dict[str, Any]
    usage: HostUsage
    machine_cores: int


@dataclass(frozen=True)
class RankFigures:
    """A rank: the `local_rank`-th on host number `host` of the run, at last.

    `facts` are those of its `Started`, empty where it made none. `epochs` are what it said at the
    end of each; `checkpoints` are its parts of them.
    """

    rank: int
    host: int
    local_rank: int
    facts: dict[str, Any]
    epochs: tuple[Epoch, ...]
    epoch_seconds: tuple[float, ...]
    checkpoints: tuple[Saved, ...]
    usage: RankUsage
    gpu: GpuUsage


@dataclass(frozen=True)
class Evaluation:
    """A test of the model, as rank 0 reports it (see `training.wire.events.Evaluated`). `time` is
    in seconds since the run's first step began. Only the last one has its confusion matrix."""

    time: float
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float
    confusion: tuple[tuple[int, ...], ...] = ()
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RunFigures:
    """A run. Times are in seconds, sizes in bytes, accuracies are fractions.

    `job` is None where a user's own program ran: `script`. `verdict` is None where the run goes
    on, or was left. `cause` and `diverged` are sentences, "" where there is nothing to say.
    `started` is a Unix time, and so is `zero`, from which all columns `time` count: the beginning
    of the first step, or where there is none, `started`. `launched_with` names versions of the
    launcher.
    `remarks` are what somebody has to know who compares the figures. `summary` is that of
    `remote.record.summary`.
    """

    name: str
    folder: Path
    job: Job | None
    script: tuple[str, ...]
    hosts: tuple[HostFigures, ...]
    ranks: tuple[RankFigures, ...]
    verdict: Verdict | None
    cause: str
    diverged: str
    started: float
    elapsed: float
    zero: float
    launched_with: dict[str, str]
    steps: StepTable
    evaluations: tuple[Evaluation, ...]
    restarts: tuple[Restart, ...]
    stalls: tuple[Stall, ...]
    remarks: tuple[summary.Remark, ...]
    summary: dict[str, Any]
    metrics: tuple[MetricValue, ...] = ()
    conditions: Conditions = UNKNOWN

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    @property
    def nodes(self) -> int:
        """The number of hosts that have ranks."""
        return len({rank.host for rank in self.ranks})

    @property
    def workers(self) -> int:
        """The number of ranks that train; others only serve them."""
        return len(self.job.trainers(self.world_size)) if self.job else self.world_size

    @property
    def what(self) -> str:
        """What ran, in a few words."""
        job = self.job
        return f"{job.sync}, {job.model} on {job.dataset}" if job else " ".join(self.script)

    def step_seconds(self) -> float:
        """Seconds per iteration by the reference's rule: the mean of iterations 2 to 40, and over
        ranks. NaN without steps."""
        return self.steps.early().mean("seconds")

    def samples_per_second(self) -> float:
        """Samples per second of all ranks together, over iterations 2 to 40; NaN without steps."""
        return self.steps.early().samples_per_second()

    def final_loss(self) -> float:
        """The training loss at the end: the mean over ranks of the last batch's; NaN without
        steps."""
        _, losses = self.steps.mean_over_ranks("loss")
        return float(losses[-1]) if losses.size else float("nan")

    def phases(self) -> dict[str, float]:
        """Mean seconds of a step, and how many went into `data`, `compute` and `sync`, over
        iterations 2 to 40."""
        early = self.steps.early()
        return {name: early.mean(name) for name in ("seconds", "data", "compute", "sync")}

    def payload(self) -> int:
        """Bytes of the gradients of the whole model; 0 where that is not known."""
        parameters = max((rank.facts.get("parameters", 0) for rank in self.ranks), default=0)
        return GRADIENT[self.job.precision] * parameters if self.job else 0

    def waits(self) -> bool:
        """Whether the ranks wait for each other, as all do but those of a stale method."""
        if self.job is None or self.world_size < 2:
            return False
        return not self.job.traits().stale

    def waiting(self) -> Waiting | None:
        """Who waited for whom; None where ranks do not wait for each other."""
        return waiting(self.steps) if self.waits() else None


def read(folder: Path, remark: Callable[[str], object] = len) -> RunFigures:
    """The figures of the run that is recorded in a folder. `remark` is told what was left out.

    Raises: RunFolderError; OtherFormat.
    """
    plan = load_plan(folder)
    state = RunState(plan)
    gathered = Gathered()
    for record in read_records(folder, len(plan.hosts), remark, expander(plan)):
        apply_record(state, record)
        gathered.take(record, state)
    for message in unused_rules(state):
        remark(message)
    return _figures(folder, plan, state, gathered)


def _figures(folder: Path, plan: Plan, state: RunState, gathered: Gathered) -> RunFigures:
    steps, zero = gathered.steps.table(state.started)
    diverged = state.progress.diverged
    return RunFigures(
        name=plan.run,
        folder=folder,
        job=plan.job,
        script=plan.work.words if isinstance(plan.work, Script) else (),
        hosts=tuple(_host(host, gathered, zero) for host in state.hosts),
        ranks=tuple(_rank(rank, gathered, zero) for rank in state.ranks),
        verdict=state.verdict,
        cause=state.cause.text() if state.cause else "",
        diverged=diverged.text if diverged else "",
        started=state.started,
        elapsed=state.elapsed,
        zero=zero,
        launched_with=_versions(folder),
        steps=steps,
        evaluations=_evaluations(state, gathered, zero),
        restarts=tuple(state.progress.restarts),
        stalls=tuple(state.stalls),
        remarks=tuple(summary.remarks(state)),
        summary=summary.of(state),
        metrics=tuple(one._replace(time=one.time - zero) for one in gathered.metrics),
        conditions=conditions(state),
    )


def _host(host: HostState, gathered: Gathered, zero: float) -> HostFigures:
    facts = asdict(host.hello) if host.hello else {}
    usage = host_usage(gathered.hosts[host.index], zero)
    return HostFigures(host.name, facts, usage, len(host.cpu))


def _rank(rank: RankState, gathered: Gathered, zero: float) -> RankFigures:
    started = gathered.started.get(rank.rank)
    return RankFigures(
        rank=rank.rank,
        host=rank.host,
        local_rank=rank.local_rank,
        facts=asdict(started) if started else {},
        epochs=tuple(rank.epochs),
        epoch_seconds=tuple(rank.epoch_seconds),
        checkpoints=tuple(gathered.saved[rank.rank]),
        usage=rank_usage(gathered.ranks[rank.rank], zero),
        gpu=gpu_usage(gathered.gpus[rank.rank], zero),
    )


def _evaluations(state: RunState, gathered: Gathered, zero: float) -> tuple[Evaluation, ...]:
    return tuple(
        Evaluation(
            gathered.tested[found.epoch, found.step] - zero,
            *(found.epoch, found.step, found.loss, found.accuracy, found.samples, found.seconds),
            *(found.confusion, found.classes),
        )
        for found in state.progress.evaluations
    )


def _versions(folder: Path) -> dict[str, str]:
    """With which versions the run was launched, as its plan tells."""
    try:
        said = (load(files.read(folder / PLAN, LIMITS.plan)) or {}).get("launcher")
    except OSError:
        return {}
    known = said.items() if isinstance(said, dict) else ()
    return {str(name): text for name, text in known if isinstance(text, str) and text.isprintable()}
