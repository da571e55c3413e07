"""What a run shows beside the first one: faster or slower, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, number
from remote.metrics.compare import ComparedRun, RunNoise
from remote.statistics.comparison import Finding
from tui.kit.palette import RUN_LETTERS

MIN_FREEDOM = 4
"""With fewer degrees of freedom, intervals are wide mostly because there are few runs."""
MAX_CERTAIN_RATIO = 10.0
"""An interval that reaches a larger ratio says nothing."""


def format_verdicts(compared: Sequence[ComparedRun]) -> list[str]:
    """Return one line for each run but the first."""
    # Not strict, as there are more letters than runs.
    pairs = zip(RUN_LETTERS[1:], compared[1:], strict=False)
    return [f"{letter}: {format_verdict(run)}" for letter, run in pairs]


def format_verdict(compared: ComparedRun) -> str:
    """Return what a run that is not the first one shows beside that, in one sentence."""
    return _time_verdict(compared) + _loss_difference(compared)


def _time_verdict(compared: ComparedRun) -> str:
    against = compared.against
    if against is None:
        return "no verdict on the time per step: a run without steps has none"
    ratio = against.ratio
    unit = "sample" if compared.is_per_sample else "step"
    change = f"{_change(ratio.value)} time per {unit}"
    # Whatever runs with equal settings are apart is noise, so there is nothing to doubt.
    if compared.is_repetition:
        same = f"no verdict: same recorded settings as A, and {change}"
        return f"{same}: runs on these hosts differ by as much"
    if compared.doubt:
        return "no verdict on the time per step: it is in doubt"
    if not math.isfinite(ratio.low):
        return f"no verdict on the time per step: too few steps ({change})"
    basis = _noise(compared.noise)
    if ratio.high < MAX_CERTAIN_RATIO:
        basis = f"95% sure: {_interval(ratio.low, ratio.high)}; {basis}"
    if against.finding is Finding.NOT_SHOWN:
        return f"no difference to A shown: {change} may be chance ({basis})"
    return f"{against.finding.value} than A: {change} ({basis})"


def _change(ratio: float) -> str:
    """Return what a ratio of times means, such as 12.5% more."""
    direction = "less" if ratio < 1 else "more"
    return f"{abs(ratio - 1):.1%} {direction}"


def _interval(low: float, high: float) -> str:
    """Return the changes that an interval of ratios spans, the smaller one first."""
    if low < 1 <= high:
        return f"{_change(low)} to {_change(high)}"
    # Both bounds lie on one side of 1, so "less" or "more" is said once for both.
    smaller, larger = (high, low) if high < 1 else (low, high)
    return f"{abs(smaller - 1):.1%} to {_change(larger)}"


def _noise(noise: RunNoise) -> str:
    """Return how much equal runs differ, which a single run does not show."""
    if not noise.freedom:
        return f"assuming that equal runs differ by {noise.share:.0%}"
    few = ", of which there are few" if noise.freedom < MIN_FREEDOM else ""
    return f"equal runs differ by {noise.share:.1%} here{few}"


def _loss_difference(compared: ComparedRun) -> str:
    difference = compared.loss_difference
    if not compared.common_steps or math.isnan(difference):
        return ""
    steps = count(compared.common_steps, "common step")
    if not difference:
        return f"; the same training loss at {steps}"
    return f"; training losses at most {number(difference)} apart at {steps}"
