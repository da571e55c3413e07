"""The labelled figures of the header: how far a run has learnt, and how fast it trains. Pure."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from remote.format import UNKNOWN, loss, percent, rate, short_size, step_time
from remote.run.findings.link_use import find_link_use
from remote.run.findings.rates import live_means
from remote.run.findings.training_loss import (
    find_divergence_step,
    find_training_loss,
    is_mean_beside_prints,
)
from remote.run.run_state import RunState
from remote.run.series.step_times import RECENT, Means
from tui.run.components.link_text import describe_link_use

TESTS = ("test acc", "best acc")
"""The figures of tests, which are of runs of rankboard's own alone."""
RARE = ("sent/s", "checkpoint")
"""Figures that few scripts have."""


class HeaderFigure(Struct, frozen=True):
    """A value with its label. It keeps its place, whether the value is known or not."""

    label: str
    value: str
    width: int
    """The cells that the widest usual value takes."""
    long_label: str = ""
    """A label that says more, where there is room for it; "" for the usual one."""

    @property
    def is_known(self) -> bool:
        """Return True if there is a value to show."""
        return self.value != UNKNOWN


def header_figures(run: RunState) -> list[HeaderFigure]:
    """Return the figures of a run, the most important first. All of them for every run of
    rankboard's own, so that none moves when another one becomes known."""
    pace = live_means(run)
    speed_label, speed = _speed(run, pace.throughput)
    tests = [evaluation.accuracy for evaluation in run.progress.evaluations]
    figures = [
        _loss_figure(run),
        HeaderFigure("test acc", percent(tests[-1], 1) if tests else UNKNOWN, 5),
        _best_figure(run, tests),
        HeaderFigure(speed_label, _known(speed, rate), 6),
        HeaderFigure("step", _known(pace.seconds, step_time), 6),
        HeaderFigure("sync", _known(pace.share(pace.sync), percent), 4),
        _network_figure(run, pace),
        HeaderFigure("checkpoint", _known(_saved_step(run), "{:.0f}".format), 6),
    ]
    if run.plan.job is None:
        # A script may never have them.
        figures = [figure for figure in figures if figure.label not in TESTS]
        figures = [figure for figure in figures if figure.is_known or figure.label not in RARE]
    return figures


def _loss_figure(run: RunState) -> HeaderFigure:
    """Return the training loss; that of a script says that it is a mean, and of how many steps,
    where the script may print another one."""
    is_mean = is_mean_beside_prints(run)
    label, long_label = ("mean loss", f"mean loss of {RECENT} steps") if is_mean else ("loss", "")
    return HeaderFigure(label, loss(find_training_loss(run)), 6, long_label)


def _best_figure(run: RunState, tests: list[float]) -> HeaderFigure:
    """Return the best accuracy; of a run that diverged, none is worth it, and the learning rate is
    the usual reason."""
    if run.plan.job and find_divergence_step(run) is not None:
        return HeaderFigure("lr", f"{run.plan.job.lr:g}", 5)
    return HeaderFigure("best acc", percent(max(tests), 1) if tests else UNKNOWN, 5)


def _speed(run: RunState, samples_per_second: float) -> tuple[str, float]:
    """Return samples per second with their label; or samples or tokens per second of all ranks, as
    a user's own program prints them."""
    each = " each" if run.trains_apart else ""
    if not samples_per_second > 0 and not run.stall:
        for name, label in (("samples_per_second", "samples/s"), ("tokens_per_second", "tokens/s")):
            metric = run.metrics.named.get(name)
            if metric:
                return label, metric.last
    return f"samples/s{each}", samples_per_second


def _network_figure(run: RunState, pace: Means) -> HeaderFigure:
    """Return how much of the busiest link is used; what is sent if no link's rate is known."""
    link_use = find_link_use(run)
    if link_use and not run.stall:
        return HeaderFigure("network", describe_link_use(link_use), 18)
    return HeaderFigure("sent/s", _known(pace.bytes_per_second, short_size), 5)


def _saved_step(run: RunState) -> int:
    return max((rank.saved_step for rank in run.ranks), default=0)


def _known(value: float, format_value: Callable[[float], str]) -> str:
    # What is not known is 0 or NaN, and neither is over 0.
    return format_value(value) if value > 0 else UNKNOWN
