"""The registry of series: each figure of a rank, a host or the run of which a curve is kept.

A new series is a row of `_ROWS`. Charts, exports and saved views know it by its `id`. A value that
a script prints by some name has the id "metric:NAME", and needs no row.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from training.wire.host_events import GpuSample, RankSample
from training.wire.rank_events import Collectives, Evaluated, StepFinished


class Scope(Enum):
    """Whose figure it is."""

    RANK = "rank"
    HOST = "host"
    RUN = "run"


class Unit(Enum):
    """How a value is written. A share is a fraction, shown in percent."""

    NUMBER = ""
    SECONDS = "s"
    SHARE = "%"
    BYTES = "B"
    PER_SECOND = "/s"
    BYTES_PER_SECOND = "B/s"


class Source(Struct, frozen=True):
    """Figures that come together in one event."""

    name: str
    scope: Scope
    event: type[object] | None = None
    """The event, if all figures are its own."""
    by_time: bool = False
    """They come with the time, not with a step."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Return the names that its rows give as `figure` or `over`. Each is a field of `event`.
        Of `HOST_SAMPLE`, the first is `HostState.cpu_share`; the others are fields of
        `HostSample`."""
        return _FIGURES.get(self.name, (VALUE,))


STEP = Source("step", Scope.RANK, StepFinished)
RANK_SAMPLE = Source("rank sample", Scope.RANK, RankSample, by_time=True)
GPU_SAMPLE = Source("GPU sample", Scope.RANK, GpuSample, by_time=True)
COLLECTIVES = Source("collectives", Scope.RANK, Collectives, by_time=True)
HOST_SAMPLE = Source("host sample", Scope.HOST, by_time=True)
CORES = Source("cores", Scope.HOST, by_time=True)
"""A value for each core of a host."""
TEST = Source("test", Scope.RUN, Evaluated)
SOURCES = (STEP, RANK_SAMPLE, GPU_SAMPLE, COLLECTIVES, HOST_SAMPLE, CORES, TEST)


class Spec(Struct, frozen=True):
    """A series: a figure of a source, or a figure divided by another one."""

    id: str
    title: str
    unit: Unit
    source: Source
    figure: str
    over: str = ""
    """The figure by which it is divided, if any."""
    adds: bool = False
    """The value of all ranks, or hosts, together is their sum; else it is their mean."""
    factor: float = 1.0
    """By which a recorded value is multiplied to be one of `unit`."""

    @property
    def scope(self) -> Scope:
        """Return whose figure it is."""
        return self.source.scope


METRIC = "metric:"
"""The beginning of the ids of metrics."""
VALUE = "value"
"""The figure of a metric."""


def metric_id(name: str) -> str:
    """Return the id of the series of a metric."""
    return METRIC + name


@lru_cache(maxsize=1024)
def _metric(name: str) -> Spec:
    """Return the series of a metric; normalised names show the unit, see `remote.formats.names`."""
    source = Source(metric_id(name), Scope.RANK)
    return Spec(source.name, _TITLES.get(name, name), _unit(name), source, VALUE)


def _unit(name: str) -> Unit:
    if name.endswith("_seconds"):
        return Unit.SECONDS
    if "_per_second" in name:
        return Unit.PER_SECOND
    is_share = name.removeprefix("val_").startswith("accuracy")
    return Unit.SHARE if is_share else Unit.NUMBER


_TITLES = {"loss": "printed loss", "lr": "learning rate", "val_loss": "validation loss"}


class _Registry(dict[str, Spec]):
    """The rows below, and a series for each metric that somebody names."""

    def __missing__(self, series: str) -> Spec:
        if not series.startswith(METRIC):
            raise KeyError(series)
        # It is not added here: looked through, the registry has no metrics.
        return _metric(series.removeprefix(METRIC))


NUMBER, SECONDS, SHARE, BYTES, PER_SECOND, BYTES_PER_SECOND = Unit
_ROWS: tuple[tuple[Any, ...], ...] = (
    ("loss", "loss", NUMBER, STEP, "loss"),
    ("accuracy", "accuracy", SHARE, STEP, "correct", "samples"),
    ("seconds", "s/iteration", SECONDS, STEP, "seconds"),
    ("data", "data", SECONDS, STEP, "data"),
    ("compute", "compute", SECONDS, STEP, "compute"),
    ("sync", "sync", SECONDS, STEP, "sync"),
    ("ready", "ready", SECONDS, STEP, "ready"),
    ("throughput", "samples/s", PER_SECOND, STEP, "samples", "seconds", True),
    ("bytes", "bytes/s sent", BYTES_PER_SECOND, STEP, "bytes_sent", "seconds", True),
    ("staleness", "staleness", NUMBER, STEP, "staleness"),
    ("cpu", "CPU of a core", SHARE, RANK_SAMPLE, "cpu", "", False, 0.01),
    ("memory", "memory of ranks", BYTES, RANK_SAMPLE, "memory"),
    ("gpu", "GPU use", SHARE, GPU_SAMPLE, "use", "", False, 0.01),
    ("gpu_memory", "GPU memory", BYTES, GPU_SAMPLE, "memory_used"),
    ("collectives", "collectives/s", PER_SECOND, COLLECTIVES, "count", "span", True),
    ("exchanged", "bytes/s exchanged", BYTES_PER_SECOND, COLLECTIVES, "bytes", "span", True),
    ("blocked", "blocked in collectives", SHARE, COLLECTIVES, "seconds", "span"),
    ("host_cpu", "CPU of the host's quota", SHARE, HOST_SAMPLE, "cpu_share"),
    ("cores", "CPU of the machine's cores", SHARE, CORES, "cpu", "", False, 0.01),
    ("host_memory", "memory of hosts", BYTES, HOST_SAMPLE, "memory_used"),
    ("received", "network in", BYTES_PER_SECOND, HOST_SAMPLE, "received"),
    ("sent", "network out", BYTES_PER_SECOND, HOST_SAMPLE, "sent"),
    ("test_loss", "test loss", NUMBER, TEST, "loss"),
    ("test_accuracy", "test accuracy", SHARE, TEST, "accuracy"),
)
"""The fields of each `Spec`: id, title, unit, source, figure, and, where they differ from their
defaults, over, adds, factor."""
SERIES = _Registry((row[0], Spec(*row)) for row in _ROWS)
"""All series by their ids; looked through, those that are no metrics."""
_FIGURES = {
    source.name: tuple(
        dict.fromkeys(
            figure
            for spec in SERIES.values()
            if spec.source is source
            for figure in (spec.figure, spec.over)
            if figure
        )
    )
    for source in SOURCES
}
"""The figures of each source, each once, in the order of the rows."""
