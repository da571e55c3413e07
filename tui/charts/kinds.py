"""The charts that there are. A series that none of them shows has a chart of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

from remote.run.run_state import RunState
from remote.run.series.definitions import METRIC, SERIES, Scope, Unit, metric_id


@dataclass(frozen=True)
class ChartKind:
    """A chart of these `series`, and with `tests` a series of single points.

    `stacked`: as areas over each other. `smooth`: noisy, so smoothed at first. `each`: a curve for
    each rank or host at first. `begins`: shown from the beginning, else once there is something to
    see.
    """

    id: str
    title: str
    help: str
    series: tuple[str, ...]
    tests: str = ""
    stacked: bool = False
    smooth: bool = True
    each: bool = False
    from_zero: bool = True
    begins: bool = False

    @property
    def unit(self) -> Unit:
        """That of its values."""
        return SERIES[self.series[0]].unit


KINDS = (
    ChartKind(
        *("loss", "loss", "training loss, and test loss ◆", ("loss",), "test_loss"),
        from_zero=False,
        begins=True,
    ),
    ChartKind(
        "phases",
        "s/iteration",
        "how long an iteration takes: data ░, compute ▒, sync █",
        ("data", "compute", "sync"),
        stacked=True,
        smooth=False,
        begins=True,
    ),
    ChartKind(
        *("accuracy", "accuracy", "training accuracy, and test accuracy ◆", ("accuracy",)),
        tests="test_accuracy",
        from_zero=False,
        begins=True,
    ),
    ChartKind("throughput", "samples/s", "samples per second of all ranks", ("throughput",)),
    ChartKind(
        *("host_cpu", "ranks' CPU by host"),
        "what the ranks of a host use of the cores that it may use; other programs do not count",
        ("host_cpu",),
        each=True,
    ),
    ChartKind("gpu", "GPU use", "share of the time in which each rank's GPU is busy", ("gpu",)),
    ChartKind("gpu_memory", "GPU memory", "memory in use on each rank's GPU", ("gpu_memory",)),
    ChartKind("bytes", "sent B/s", "bytes per second that all ranks send", ("bytes",)),
    ChartKind(
        "seconds", "s/iteration by rank", "how long each rank's iterations take", ("seconds",)
    ),
    ChartKind(
        "ready", "ready", "seconds until a rank's gradients are ready", ("ready",), each=True
    ),
    ChartKind(
        "staleness", "staleness", "updates between a rank's pull and its push", ("staleness",)
    ),
)


FIRST = ("loss", "phases", "seconds", "accuracy")
"""The first charts of a run of a user's own program; what it prints follows."""


def available(run: RunState) -> list[ChartKind]:
    """The charts of a run, in order: those that begin, and those that have anything to show."""
    kinds = KINDS if run.plan.job else [_printed(kind, run) for kind in KINDS]
    shown = [kind for kind in kinds if kind.begins or _has_values(run, _telling(kind, run))]
    used = {name for kind in (*KINDS, *kinds) for name in (*kind.series, kind.tests)}
    found = (*SERIES.values(), *(SERIES[name] for name in run.curves.metrics))
    rest = (spec for spec in found if spec.id not in used)
    shown += [
        ChartKind(
            *(spec.id, spec.title),
            f"{spec.title}, of each {spec.scope.value}",
            (spec.id,),
            each=spec.scope is Scope.HOST,
        )
        for spec in rest
        if _has_values(run, (spec.id,))
    ]
    return shown if run.plan.job else sorted(shown, key=_place)


def _place(kind: ChartKind) -> int:
    """Where the chart stands in a run of a user's own program."""
    if kind.id in FIRST:
        return FIRST.index(kind.id)
    return len(FIRST) + (not kind.id.startswith(METRIC))


def _printed(kind: ChartKind, run: RunState) -> ChartKind:
    """The chart in a run of a user's own program: of what that prints, where nobody else knows
    it."""
    name = kind.series[0]
    if not _has_values(run, (name,)) and metric_id(name) in run.curves.metrics:
        kind = replace(kind, series=(metric_id(name),))
    validation = metric_id(f"val_{name}")
    if kind.tests and validation in run.curves.metrics:
        kind = replace(kind, tests=validation)
    return replace(kind, begins=kind.id == "loss")


def _telling(kind: ChartKind, run: RunState) -> tuple[str, ...]:
    """The series that tell whether there is anything to see. A program's log may tell `data` alone,
    which splits nothing."""
    return kind.series if run.plan.job or not kind.stacked else kind.series[1:]


def _has_values(run: RunState, series: tuple[str, ...]) -> bool:
    """Whether there is a value that is not 0."""
    return any(run.curves.has_values(name) for name in series)
