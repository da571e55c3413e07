"""The figures of one recorded run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from remote.jsonl import load
from remote.limits import LIMITS
from remote.metrics.conditions import UNKNOWN, Conditions, find_conditions
from remote.metrics.gather import MetricValue, RunCollector
from remote.metrics.read_record import collect_run
from remote.metrics.step_collector import WINDOW
from remote.metrics.step_index import StepPart
from remote.metrics.steps import Floats, StepTable
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage, as_columns
from remote.metrics.waiting import WaitTimes, measure_waits
from remote.plan.expected import GRADIENT
from remote.record import files, summary
from remote.record.layout import PLAN
from remote.record.lock import launcher
from remote.record.read import load_plan
from remote.record.remarks import Remark, find_remarks
from remote.run.findings.flaws import find_flaws
from remote.run.findings.script_visibility import unused_rules
from remote.run.findings.start_load import describe_start_load
from remote.run.findings.training_loss import find_training_loss
from remote.run.run_state import RunState
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.host_state import HostState
from remote.run.state.phases import LEFT, RUNNING, Verdict
from remote.run.state.progress import Restart
from remote.run.state.rank_state import RankState
from remote.run.state.types import Stall
from training.job import Job
from training.wire.rank_events import Epoch, Saved


@dataclass(frozen=True)
class HostFigures:
    """A host."""

    name: str
    facts: dict[str, Any]
    """Those of its `Hello`; empty if it sent none."""
    variables: dict[str, str]
    """What is set in the environment of its ranks by name, without `env_from`, which is secret."""
    usage: HostUsage
    machine_cores: int
    """All cores of the machine that it is on; 0 if they are not known."""


@dataclass(frozen=True)
class RankFigures:
    """A rank, where it was at last."""

    rank: int
    host: int
    """The index of its host in the run."""
    local_rank: int
    facts: dict[str, Any]
    """Those of its `Started`; empty if it sent none."""
    epochs: tuple[Epoch, ...]
    """What it reported at the end of each."""
    epoch_seconds: tuple[float, ...]
    checkpoints: tuple[Saved, ...]
    """Its parts of them."""
    usage: RankUsage
    gpu: GpuUsage


@dataclass(frozen=True)
class EvaluationFigures:
    """A test of the model, as rank 0 reports it (see `training.wire.rank_events.Evaluated`)."""

    time: float
    """Seconds since the run's first step began."""
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float
    confusion: tuple[tuple[int, ...], ...] = ()
    """Only the last test has its confusion matrix."""
    classes: tuple[str, ...] = ()


TEST_FIELDS = tuple(field.name for field in fields(EvaluationFigures))[1:]
"""The fields that an `Evaluated` has as well."""


@dataclass(frozen=True, eq=False)
class RunFigures:
    """A run. Times are in seconds, sizes in bytes, accuracies are fractions."""

    name: str
    folder: Path
    job: Job | None
    script: tuple[str, ...]
    """The command of a script that ran in place of a job."""
    hosts: tuple[HostFigures, ...]
    ranks: tuple[RankFigures, ...]
    verdict: Verdict | None
    """None if the run goes on, or was left."""
    cause: str
    """Why it failed, in a sentence; "" if it did not."""
    flaws: tuple[Flaw, ...]
    """What spoils its result, the most important first."""
    started: float
    """A Unix time."""
    elapsed: float
    zero: float
    """The Unix time from which all columns `time` count: the beginning of the first step, or
    `started` if there is none."""
    launched_with: dict[str, str]
    """Versions of the launcher by name."""
    steps: StepTable
    """All of a short run. Of a long one, those of one in every `step_stride` windows, see
    `remote.metrics.step_collector`."""
    training_loss: float | None
    """See `find_training_loss`."""
    evaluations: tuple[EvaluationFigures, ...]
    restarts: tuple[Restart, ...]
    stalls: tuple[Stall, ...]
    remarks: tuple[Remark, ...]
    """What a reader has to know who compares the figures."""
    summary: dict[str, Any]
    """That of `remote.record.summary`."""
    start_load: str = ""
    """Which of its hosts were busy with others at the start, in a sentence; "" if none was."""
    step_stride: int = 1
    all_steps: Callable[[], Iterator[StepPart]] | None = None
    """Yields the parts in which all steps are read; None if these are `steps`, or nobody asked."""
    metrics: tuple[MetricValue, ...] = ()
    prints_other_loss: bool = False
    """It printed another loss than that of its steps: its loss is the printed one, see
    `loss_course`, and `steps` have the other one."""
    trains_apart: bool = False
    """The ranks of a script exchange nothing: each trains a model of its own."""
    conditions: Conditions = UNKNOWN

    @property
    def state(self) -> str:
        """Return how it ended or, if that is not recorded, whether it goes on: one of
        `RUN_STATES`."""
        if self.verdict:
            return self.verdict.word
        return LEFT if launcher(self.folder) is None else RUNNING

    @property
    def has_diverged(self) -> bool:
        """Return True if its training diverged."""
        return any(flaw.kind is FlawKind.DIVERGED for flaw in self.flaws)

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return len(self.ranks)

    @property
    def nodes(self) -> int:
        """Return the number of hosts that have ranks."""
        return len({rank.host for rank in self.ranks})

    @property
    def workers(self) -> int:
        """Return the number of ranks that train; others only serve them."""
        return len(self.job.trainers(self.world_size)) if self.job else self.world_size

    @property
    def description(self) -> str:
        """Return what ran, in a few words."""
        if self.job is None:
            return " ".join(self.script)
        return f"{self.job.sync}, {self.job.model} on {self.job.dataset}"

    def step_seconds(self) -> float:
        """Return the seconds per iteration by the assignment's rule: the mean of iterations 2 to
        40, and over ranks. NaN without steps."""
        return self.steps.early().mean("seconds")

    def samples_per_second(self) -> float:
        """Return samples per second over iterations 2 to 40; NaN without steps.

        They are of all ranks together, or of a rank on average if ranks train apart.
        """
        return self.steps.early().samples_per_second(are_apart=self.trains_apart)

    def loss_course(self) -> tuple[Floats, Floats, Floats]:
        """Return steps, times and training losses: means over the ranks, or what the first rank
        printed that did, where that is another quantity."""
        if not self.prints_other_loss:
            steps, losses = self.steps.mean_over_ranks("loss")
            return steps.astype(float), self.steps.mean_over_ranks("time")[1], losses
        printed = [value for value in self.metrics if value.name == "loss"]
        points = [value for value in printed if value.rank == printed[0].rank]
        columns = [(value.step, value.time, value.value) for value in points]
        printed_steps, times, printed_losses = np.array(columns, dtype=float).reshape(-1, 3).T
        return printed_steps, times, printed_losses

    def phases(self) -> dict[str, float]:
        """Return the mean seconds of a step, and how many went into `data`, `compute` and `sync`,
        over iterations 2 to 40."""
        early_steps = self.steps.early()
        return {name: early_steps.mean(name) for name in ("seconds", "data", "compute", "sync")}

    def payload(self) -> int:
        """Return the bytes of the gradients of the whole model; 0 if that is not known."""
        num_parameters = max((rank.facts.get("parameters", 0) for rank in self.ranks), default=0)
        return GRADIENT[self.job.precision] * num_parameters if self.job else 0

    def wait_times(self) -> WaitTimes | None:
        """Return who waited for whom; None if ranks do not wait for each other, such as those of a
        stale method."""
        if self.job is None or self.world_size < 2 or self.job.traits().stale:
            return None
        return measure_waits(self.steps)


def _ignore(remark: str) -> None:
    """Leave a remark out."""


def read_figures(
    folder: Path, remark: Callable[[str], object] = _ignore, *, keeps_all: bool = False
) -> RunFigures:
    """Read the figures of the run that is recorded in a folder.

    `remark` hears of what was left out. `keeps_all`: all values of a long run as well, and with
    `all_steps`, where all steps are. Raises: RunFolderError; OtherFormat.
    """
    collector = RunCollector(keeps_all=keeps_all)
    state = collect_run(folder, load_plan(folder), collector, remark)
    for message in unused_rules(state):
        remark(message)
    return make_figures(folder, state, collector)


def make_figures(folder: Path, state: RunState, collector: RunCollector) -> RunFigures:
    """Return the figures of a run from all that its records say."""
    plan = state.plan
    steps, zero = collector.steps.table(state.started)
    unknown = steps.list_untold() if plan.script else ()
    return RunFigures(
        name=plan.run,
        folder=folder,
        job=plan.job,
        script=plan.script.words if plan.script else (),
        hosts=tuple(
            _host_figures(host, dict(given.env), collector, zero)
            for given, host in zip(plan.hosts, state.hosts, strict=True)
        ),
        ranks=tuple(_rank_figures(rank, collector, zero) for rank in state.ranks),
        verdict=state.verdict,
        cause=state.cause.text() if state.cause else "",
        flaws=find_flaws(state),
        started=state.started,
        elapsed=state.elapsed,
        zero=zero,
        launched_with=_read_versions(folder),
        steps=steps.without(unknown),
        step_stride=collector.steps.stride,
        all_steps=collector.find_parts(folder, zero, unknown),
        training_loss=find_training_loss(state),
        evaluations=_list_evaluations(state, collector, zero),
        restarts=tuple(state.progress.restarts),
        stalls=tuple(state.stalls),
        remarks=(*find_remarks(state), *_remark_on_sample(collector.steps.stride)),
        summary=summary.summarize(state),
        start_load=describe_start_load(state),
        metrics=collector.metrics.list_values(zero),
        prints_other_loss=state.progress.prints_other_loss,
        trains_apart=state.trains_apart,
        conditions=find_conditions(state),
    )


def _remark_on_sample(stride: int) -> Iterator[Remark]:
    if stride > 1:
        text = f"many steps: its curves and means are those of {WINDOW} in every {stride * WINDOW}"
        yield Remark(text, is_warning=False)


def _host_figures(
    host: HostState, variables: dict[str, str], collector: RunCollector, zero: float
) -> HostFigures:
    facts = asdict(host.hello) if host.hello else {}
    usage = as_columns(HostUsage, collector.hosts[host.index], zero)
    # A sample has all cores of the machine, also those that this host may not use.
    return HostFigures(host.name, facts, variables, usage, len(host.sample.cpu))


def _rank_figures(rank: RankState, collector: RunCollector, zero: float) -> RankFigures:
    started = collector.started.get(rank.rank)
    return RankFigures(
        rank=rank.rank,
        host=rank.host,
        local_rank=rank.local_rank,
        facts=asdict(started) if started else {},
        epochs=tuple(rank.epochs),
        epoch_seconds=tuple(rank.epoch_seconds),
        checkpoints=tuple(collector.saved[rank.rank]),
        usage=as_columns(RankUsage, collector.ranks[rank.rank], zero),
        gpu=as_columns(GpuUsage, collector.gpus[rank.rank], zero),
    )


def _list_evaluations(
    state: RunState, collector: RunCollector, zero: float
) -> tuple[EvaluationFigures, ...]:
    evaluations = []
    for test in state.progress.evaluations:
        time = collector.test_times[test.epoch, test.step] - zero
        evaluations.append(
            EvaluationFigures(time, **{name: getattr(test, name) for name in TEST_FIELDS})
        )
    return tuple(evaluations)


def _read_versions(folder: Path) -> dict[str, str]:
    """Return with which versions the run was launched, as its plan says."""
    try:
        plan_object = load(files.read(folder / PLAN, LIMITS.plan)) or {}
    except OSError:
        return {}
    launcher = plan_object.get("launcher")
    if not isinstance(launcher, dict):
        return {}
    versions = {}
    for name, version in launcher.items():
        # Anybody may have written the plan.
        if isinstance(version, str) and version.isprintable():
            versions[str(name)] = version
    return versions
