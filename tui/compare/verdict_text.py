"""What a run shows beside the first one: faster or slower, by how much, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, number
from remote.metrics.compare import ComparedRun, RunNoise
from remote.statistics.comparison import Finding
from tui.compare.facts import blame_machine
from tui.kit.palette import RUN_LETTERS

MIN_FREEDOM = 4
"""With fewer degrees of freedom, intervals are wide mostly because there are few runs."""
MAX_CERTAIN_RATIO = 10.0
"""An interval that reaches a larger ratio says nothing."""


def format_verdicts(compared: Sequence[ComparedRun]) -> list[str]:
    """Return one line for each run but the first."""
    # Not strict, as there are more letters than runs.
    pairs = zip(RUN_LETTERS[1:], compared[1:], strict=False)
    return [f"{letter} vs A: {format_verdict(run)}" for letter, run in pairs]


def format_verdict(compared: ComparedRun) -> str:
    """Return what a run that is not the first one shows beside that, in one sentence."""
    return _time_verdict(compared) + _loss_difference(compared)


def _time_verdict(compared: ComparedRun) -> str:
    against = compared.against
    if against is None:
        return "no verdict on the time per step: a run without steps has none"
    ratio = against.ratio
    unit = "sample" if compared.is_per_sample else "step"
    change = f"{format_ratio(ratio.value)} per {unit}"
    # Whatever runs with equal settings are apart is noise, so there is nothing to doubt.
    if compared.is_repetition:
        same = f"no verdict: same recorded settings, and {change}"
        return f"{same}: runs on these hosts differ by as much"
    if compared.doubt:
        return "no verdict on the time per step: it is in doubt"
    if compared.same_work_settings:
        return f"no verdict: {change} is {blame_machine(compared.same_work_settings)}"
    if not math.isfinite(ratio.low):
        return f"no verdict on the time per step: too few steps ({change})"
    basis = _noise(compared.noise)
    if ratio.high < MAX_CERTAIN_RATIO:
        basis = f"95%: {format_ratio(ratio.low)} to {format_ratio(ratio.high)}; {basis}"
    is_shown = against.finding is not Finding.NOT_SHOWN
    return f"{change} ({basis}), {against.finding.value if is_shown else 'not significant'}"


def format_ratio(ratio: float) -> str:
    """Return what a ratio of times means, such as +12.5%."""
    return f"{ratio - 1:+.1%}".replace("-", "\N{MINUS SIGN}")


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
