"""The registry of series: each figure of a rank, a host or the run of which a curve is kept.

A new series is a name in the metrics of its `Source`, and a row of `SERIES`. Charts, exports and
saved views know it by its `id`. A value that a script prints by some name has the id "metric:NAME",
and needs no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from training.wire import events


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


@dataclass(frozen=True, slots=True)
class Source:
    """Figures that come together in one event."""

    name: str
    scope: Scope
    figures: tuple[str, ...]
    """Fields of the event, or of the state that is made of it."""
    event: type[object] | None = None
    """The event, if all figures are its own."""
    by_time: bool = False
    """They come with the time, not with a step."""


STEP = Source(
    "step",
    Scope.RANK,
    (
        "loss",
        "seconds",
        "data",
        "compute",
        "sync",
        "ready",
        "samples",
        "correct",
        "bytes_sent",
        "staleness",
    ),
    events.StepFinished,
)
RANK_SAMPLE = Source(
    "rank sample", Scope.RANK, ("cpu", "memory"), events.RankSample, by_time=True
)
GPU_SAMPLE = Source(
    "GPU sample", Scope.RANK, ("use", "memory_used"), events.GpuSample, by_time=True
)
HOST_SAMPLE = Source(
    "host sample", Scope.HOST, ("used", "memory_used", "sent", "received"), by_time=True
)
CORES = Source("cores", Scope.HOST, ("cpu",), by_time=True)
"""A value for each core of a host."""
TEST = Source("test", Scope.RUN, ("loss", "accuracy"), events.Evaluated)
SOURCES = (STEP, RANK_SAMPLE, GPU_SAMPLE, HOST_SAMPLE, CORES, TEST)


@dataclass(frozen=True, slots=True)
class Spec:
    """A series: a figure of a source, or a figure divided by another one."""

    id: str
    title: str
    unit: Unit
    source: Source
    figure: str
    over: str = ""
    """The figure by which it is divided, if any."""
    adds: bool = False
    """Ranks and hosts fold into their sum, else into their mean."""
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
    source = Source(metric_id(name), Scope.RANK, (VALUE,))
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
        return _metric(series.removeprefix(METRIC))


SERIES = _Registry(
    (spec.id, spec)
    for spec in (
        Spec("loss", "loss", Unit.NUMBER, STEP, "loss"),
        Spec("accuracy", "accuracy", Unit.SHARE, STEP, "correct", over="samples"),
        Spec("seconds", "s/iteration", Unit.SECONDS, STEP, "seconds"),
        Spec("data", "data", Unit.SECONDS, STEP, "data"),
        Spec("compute", "compute", Unit.SECONDS, STEP, "compute"),
        Spec("sync", "sync", Unit.SECONDS, STEP, "sync"),
        Spec("ready", "ready", Unit.SECONDS, STEP, "ready"),
        Spec("throughput", "samples/s", Unit.PER_SECOND, STEP, "samples", "seconds", adds=True),
        Spec(
            "bytes", "bytes/s sent", Unit.BYTES_PER_SECOND, STEP, "bytes_sent", "seconds", adds=True
        ),
        Spec("staleness", "staleness", Unit.NUMBER, STEP, "staleness"),
        Spec("cpu", "CPU of a core", Unit.SHARE, RANK_SAMPLE, "cpu", factor=0.01),
        Spec("memory", "memory of ranks", Unit.BYTES, RANK_SAMPLE, "memory"),
        Spec("gpu", "GPU use", Unit.SHARE, GPU_SAMPLE, "use", factor=0.01),
        Spec("gpu_memory", "GPU memory", Unit.BYTES, GPU_SAMPLE, "memory_used"),
        Spec("host_cpu", "CPU of the host's quota", Unit.SHARE, HOST_SAMPLE, "used"),
        Spec("cores", "CPU of the machine's cores", Unit.SHARE, CORES, "cpu", factor=0.01),
        Spec("host_memory", "memory of hosts", Unit.BYTES, HOST_SAMPLE, "memory_used"),
        Spec("received", "network in", Unit.BYTES_PER_SECOND, HOST_SAMPLE, "received"),
        Spec("sent", "network out", Unit.BYTES_PER_SECOND, HOST_SAMPLE, "sent"),
        Spec("test_loss", "test loss", Unit.NUMBER, TEST, "loss"),
        Spec("test_accuracy", "test accuracy", Unit.SHARE, TEST, "accuracy"),
    )
)
"""All series by their ids; looked through, those that are no metrics."""
