"""What the ranks sent, and how well they used their links."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from remote.metrics.run import RunFigures
from remote.plan.expected import pattern
from remote.statistics.bandwidth import best_seconds
from training.job import Job
from tui.report.subject import Group

BUCKET = "bucket"


@dataclass(frozen=True)
class Traffic:
    """A step of a group, as medians over steps and means over runs. Sizes are bytes, bandwidths
    bytes per second; NaN is not known.

    `sent` is what a rank sends as the mean over ranks, and `most` the most that any sends.
    `payload` are the gradients of the model, `pattern` how they are averaged, as in
    `remote.statistics.bandwidth.BEST`; "" where no formula holds. `blocked` are seconds from
    the moment when all ranks have their gradients to the end of the exchange: those of the rank
    that was blocked least. `busbw` is what the busiest link carried in that time; where the method
    `overlaps` the exchange with computing, it is over the whole iteration, and so the least that
    the link carried. `at_best` are the seconds that the link allows.
    """

    group: Group
    sent: float
    most: float
    payload: float
    blocked: float
    busbw: float
    at_best: float
    overlaps: bool
    pattern: str

    @property
    def share(self) -> float:
        """The bus bandwidth as a share of the link."""
        return self.busbw / self.group.own_link if self.group.own_link else math.nan

    @property
    def hidden(self) -> float:
        """The share of the exchange that at least was hidden behind the ranks' own work."""
        if not self.overlaps:
            return math.nan
        return max(0.0, 1 - self.blocked / self.at_best) if self.at_best > 0 else math.nan


def traffic(group: Group) -> Traffic | None:
    """The traffic of a group; None where nothing was sent."""
    runs = [run for run in group.all if run.world_size > 1 and len(run.steps)]
    if not runs:
        return None
    sent = float(np.mean([run.steps.early().mean("bytes_sent") for run in runs]))
    if not sent > 0:
        return None
    most = float(np.mean([run.steps.early().per_rank("bytes_sent").max() for run in runs]))
    blocked = float(np.mean([_blocked(run) for run in runs]))
    payload = float(max(run.payload() for run in runs)) or math.nan
    unit = _at_best(runs[0], payload, 1.0)
    overlaps = _overlaps(runs[0].job)
    window = float(np.mean([run.step_seconds() for run in runs])) if overlaps else blocked
    return Traffic(
        group,
        sent,
        most,
        payload,
        blocked,
        unit / window if window > 0 else math.nan,
        unit / group.own_link if group.own_link else math.nan,
        overlaps,
        _pattern(runs[0].job),
    )


def _overlaps(job: Job | None) -> bool:
    """Whether gradients are sent while others are computed."""
    if job is None:
        return False
    return job.sync == "ddp" or getattr(job.sync_options(), "granularity", "") == BUCKET


def _blocked(run: RunFigures) -> float:
    _, sync = run.steps.early().matrix("sync")
    return float(np.median(sync.min(axis=1))) if sync.size else math.nan


def _at_best(run: RunFigures, payload: float, bandwidth: float) -> float:
    pattern = _pattern(run.job)
    if not pattern or not math.isfinite(payload):
        return math.nan
    return best_seconds(pattern, payload, run.world_size, bandwidth)


def _pattern(job: Job | None) -> str:
    """How the job averages gradients; "" where the reference's formulas do not hold."""
    if job is None or job.accumulate > 1:
        return ""
    if getattr(job.sync_options(), "compression", "none") != "none":
        return ""
    return pattern(job)
