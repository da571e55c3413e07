"""What a study keeps of a run: the value that it compares, and remarks. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from remote.record import summary
from remote.run.state import RunState
from remote.study.study import NAMED, Cell, Study


def unknown(study: Study, state: RunState) -> str:
    """Why a run that has finished has no value."""
    diverged = state.progress.diverged
    why = f": {diverged.text}" if diverged else ""
    if study.metric.startswith(NAMED) and (names := ", ".join(state.metrics.named)):
        why = why or f"; it has {names}"
    return f"the run has no {study.measured}{why}"


def remarks(cell: Cell, state: RunState) -> tuple[str, ...]:
    """What who compares the run with others has to know."""
    diverged = state.progress.diverged
    said = [f"{cell.key} diverged: the loss is not finite"] if diverged else []
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


def measured(study: Study, found: Mapping[str, Any]) -> float | None:
    """The value of one run, from its summary; None where it has none.

    `step_seconds` follows the reference's rule: the mean of iterations 2 to 40 over all ranks. The
    loss of a script and its own metrics are the last ones, means over the ranks that have them.
    """
    if study.metric.startswith(NAMED):
        name = study.metric.removeprefix(NAMED)
        return _mean(rank["metrics"].get(name) for rank in found["ranks"])
    if study.is_of_script and study.metric == "loss":
        return _mean(rank["loss"] for rank in found["ranks"])
    test = found.get("test") or {}
    values = {
        "step_seconds": found["means"]["iterations_2_to_40"]["seconds"],
        "elapsed": found["training_seconds"],
        "loss": test.get("loss"),
        "accuracy": test.get("accuracy"),
    }
    value = values[study.metric]
    return float(value) if value is not None else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
