"""The charts that there are. A series that none of them shows gets a chart of its own."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from remote.run.run_state import RunState
from remote.run.series.definitions import METRIC, SERIES, Scope, Unit, metric_id


class ChartKind(Struct, frozen=True):
    """One chart that can be chosen."""

    id: str
    title: str
    help: str
    series: tuple[str, ...]
    """The ids of the series that it draws."""
    tests: str = ""
    """The series of the same figure in tests."""
    stacked: bool = False
    """Whether the series are bars, in lanes over each other."""
    smooth: bool = False
    """Whether the values are smoothed at first if they are noisy: each is of one batch only."""
    each: bool = False
    """Whether each rank or host has a curve at first."""
    from_zero: bool = True
    """Whether the y axis begins at 0."""
    saturates: bool = False
    """Whether the values soon come near their limit: then the first ones do not set that of y."""
    is_default: bool = False
    """Whether it is shown from the beginning, even before there is anything to see."""

    @property
    def unit(self) -> Unit:
        """The unit of the values."""
        return SERIES[self.series[0]].unit


KINDS = (
    ChartKind(
        "loss",
        "loss",
        "training loss, and test loss ◆",
        ("loss",),
        "test_loss",
        smooth=True,
        from_zero=False,
        is_default=True,
    ),
    ChartKind(
        "phases",
        "step time",
        "how long the phases of an iteration take: data, compute, sync",
        ("data", "compute", "sync"),
        stacked=True,
        is_default=True,
    ),
    ChartKind(
        "accuracy",
        "accuracy",
        "training accuracy, and test accuracy ◆",
        ("accuracy",),
        tests="test_accuracy",
        smooth=True,
        from_zero=False,
        saturates=True,
        is_default=True,
    ),
    ChartKind("throughput", "samples/s", "samples per second of all ranks", ("throughput",)),
    ChartKind(
        "host_cpu",
        "CPU of ranks by host",
        "what the ranks of a host use of the cores that it may use; other programs do not count",
        ("host_cpu",),
        each=True,
    ),
    ChartKind("gpu", "GPU use", "share of the time in which each rank's GPU is busy", ("gpu",)),
    ChartKind("gpu_memory", "GPU memory", "memory in use on each rank's GPU", ("gpu_memory",)),
    ChartKind("bytes", "sent", "bytes per second that all ranks send", ("bytes",)),
    ChartKind(
        "exchanged",
        "exchanged",
        "bytes per second that all ranks pass to collectives",
        ("exchanged",),
    ),
    ChartKind(
        "collectives", "collectives/s", "collectives per second of all ranks", ("collectives",)
    ),
    ChartKind(
        "blocked",
        "blocked",
        "share of the time in which each rank waits in collectives",
        ("blocked",),
        each=True,
    ),
    ChartKind("seconds", "time per step", "how long the iterations of ranks take", ("seconds",)),
    ChartKind(
        "ready", "busy", "seconds until a rank's own gradients are ready", ("ready",), each=True
    ),
    ChartKind(
        "staleness", "staleness", "updates between a rank's pull and its push", ("staleness",)
    ),
)


FIRST_OF_SCRIPTS = ("loss", "phases", "seconds", "accuracy")
"""The first charts of a script. Charts of what it prints follow."""


def available(run: RunState) -> list[ChartKind]:
    """Return the charts of a run in order: the default ones, and those with anything to show."""
    is_script = run.plan.job is None
    kinds = [_for_script(kind, run) for kind in KINDS] if is_script else list(KINDS)
    shown = [kind for kind in kinds if kind.is_default or has_anything_to_show(kind, run)]
    # Of both lists: the chart of a script may have a printed value in place of its usual series.
    shown += _charts_of_other_series(run, [*KINDS, *kinds])
    if not is_script:
        return shown
    has_phases = any(kind.id == "phases" for kind in shown)
    # Sorting is stable: charts of one place stay in the order above.
    return sorted(shown, key=lambda kind: _place_in_script(kind, has_phases=has_phases))


def _charts_of_other_series(run: RunState, kinds: Sequence[ChartKind]) -> list[ChartKind]:
    """Return a chart for each series that no chart draws yet."""
    drawn = {name for kind in kinds for name in (*kind.series, kind.tests)}
    definitions = [*SERIES.values(), *(SERIES[name] for name in run.curves.metrics)]
    charts = []
    for definition in definitions:
        if definition.id in drawn or not run.curves.has_values(definition.id):
            continue
        chart = ChartKind(
            definition.id,
            definition.title,
            f"{definition.title}, of each {definition.scope.value}",
            (definition.id,),
            each=definition.scope is Scope.HOST,
        )
        charts.append(chart)
    return charts


def _place_in_script(kind: ChartKind, *, has_phases: bool) -> int:
    # The time of a step is said by its phases. Where ranks differ in how long they are busy, their
    # map says so; where they do not, their curves are noise.
    if kind.id == "ready" or (kind.id == "seconds" and has_phases):
        return len(FIRST_OF_SCRIPTS) + 2
    if kind.id in FIRST_OF_SCRIPTS:
        return FIRST_OF_SCRIPTS.index(kind.id)
    return len(FIRST_OF_SCRIPTS) + (0 if kind.id.startswith(METRIC) else 1)


def _for_script(kind: ChartKind, run: RunState) -> ChartKind:
    """Return the chart for a script: of what it prints, if nothing else is known."""
    name = kind.series[0]
    is_printed = metric_id(name) in run.curves.metrics
    is_other_loss = name == "loss" and run.progress.prints_other_loss
    if is_printed and (is_other_loss or not run.curves.has_values(name)):
        kind = replace(kind, series=(metric_id(name),))
    validation = metric_id(f"val_{name}")
    if kind.tests and validation in run.curves.metrics:
        kind = replace(kind, tests=validation)
    if name == "throughput" and run.trains_apart:
        kind = replace(kind, help="samples per second of a rank, as each trains alone")
    # What else a script reports is not known before it does.
    return replace(kind, is_default=kind.id == "loss")


def has_anything_to_show(kind: ChartKind, run: RunState) -> bool:
    """Return True if any series of the chart has a value that is not 0."""
    series = kind.series
    if kind.stacked and run.plan.job is None:
        series = series[1:]  # a script's log may have `data` alone, which splits nothing
    return any(run.curves.has_values(name) for name in series)
