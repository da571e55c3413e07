"""What a study keeps of a run: the value that it compares, and remarks. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from typing import Any

from remote.record import summary
from remote.run.state import RunState
from remote.study.study import METRICS, Cell


def unknown(metric: str, state: RunState) -> str:
    """Why a run that has finished has no value."""
    diverged = state.progress.diverged
    return f"the run has no {METRICS[metric]}{f': {diverged.text}' if diverged else ''}"


def remarks(cell: Cell, state: RunState) -> tuple[str, ...]:
    """What who compares the run with others has to know."""
    diverged = state.progress.diverged
    said = [f"{cell.key} diverged: the loss is no finite number"] if diverged else []
    return (*said, *summary.remarks(state))


def reason(state: RunState) -> str:
    """Why a run failed, without the names of the host and the rank that were first."""
    why = state.cause.what if state.cause else state.stop_reason
    names = {host.name for host in state.hosts}
    names |= {host.hello.name for host in state.hosts if host.hello}
    for name in sorted(filter(None, names), key=len, reverse=True):
        why = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "HOST", why)
    return why


def losses(state: RunState) -> tuple[float, float] | None:
    """The training loss at the beginning and the end of its curve, means over the ranks; None
    unless both are finite."""
    ranks = state.curves.rows("loss")
    if not ranks:
        return None
    curves = [state.curves.of("loss", rank).mean for rank in ranks]
    first = statistics.fmean(float(curve[0]) for curve in curves)
    last = statistics.fmean(float(curve[-1]) for curve in curves)
    return (first, last) if math.isfinite(first) and math.isfinite(last) else None


def measured(metric: str, found: Mapping[str, Any]) -> float | None:
    """The value of one run, from its summary; None where it has none.

    `step_seconds` follows the reference's rule: the mean of iterations 2 to 40 over all ranks.
    """
    test = found.get("test") or {}
    values = {
        "step_seconds": found["means"]["iterations_2_to_40"]["seconds"],
        "elapsed": found["training_seconds"],
        "loss": test.get("loss"),
        "accuracy": test.get("accuracy"),
    }
    value = values[metric]
    return float(value) if value is not None else None
