"""What a study keeps of a run: the value that it compares, and remarks. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remote.record.remarks import find_remarks
from remote.run.run_state import RunState
from remote.study.study import NAMED, Cell, Study
from training.registry import did_you_mean

LOSS = "loss"
"""What the training loss is called, which is read of most scripts."""
SHOWN = 10
"""Metrics of a run that a message names."""


@dataclass(frozen=True)
class MissingMetric:
    """A run has finished, and has no value of what the study compares: `metric`, as the file calls
    it, and `measured` in words. `names` are the metrics that the run has. `why` says why it has no
    value, where the study is not to blame."""

    metric: str
    measured: str
    names: tuple[str, ...]
    why: str = ""

    def text(self) -> str:
        """In words, with the nearest name."""
        said = f"the run has no {self.measured}"
        if self.why or not self.metric.startswith(NAMED):
            return f"{said}: {self.why}" if self.why else said
        if not self.names:
            return f"{said}, nor any other metric"
        shown = self.names[:SHOWN]
        more = f" and {len(self.names) - SHOWN} more" if len(self.names) > SHOWN else ""
        near = did_you_mean(self.metric.removeprefix(NAMED), self.names)
        return f"{said}; it has {', '.join(shown)}{more}{near}"


def describe_missing(study: Study, state: RunState) -> MissingMetric:
    """Say what a run lacks that has finished without a value."""
    diverged = state.progress.diverged
    names = dict.fromkeys(state.metrics.named)
    if any(math.isfinite(rank.loss) for rank in state.ranks):
        names.setdefault(LOSS)
    why = diverged.text if diverged else ""
    return MissingMetric(study.metric, study.measured, tuple(names), why)


def list_remarks(cell: Cell, state: RunState) -> tuple[str, ...]:
    """What who compares the run with others has to know."""
    diverged = state.progress.diverged
    said = [f"{cell.key} diverged: the loss is not finite"] if diverged else []
    return (*said, *(remark.text for remark in find_remarks(state)))


def general_cause(state: RunState) -> str:
    """Why a run failed, without the names of the host and the rank that were first."""
    why = state.cause.what if state.cause else state.stop_reason
    names = {host.name for host in state.hosts}
    names |= {host.hello.hostname for host in state.hosts if host.hello}
    for name in sorted(filter(None, names), key=len, reverse=True):
        why = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "HOST", why)
    return why


def first_and_last_loss(state: RunState) -> tuple[float, float] | None:
    """The training loss at the beginning and the end of its curve, means over the ranks; None
    unless both are finite."""
    ranks = state.curves.rows("loss")
    if not ranks:
        return None
    curves = [state.curves.of("loss", rank).mean for rank in ranks]
    first = statistics.fmean(float(curve[0]) for curve in curves)
    last = statistics.fmean(float(curve[-1]) for curve in curves)
    return (first, last) if math.isfinite(first) and math.isfinite(last) else None


def read_value(study: Study, found: Mapping[str, Any]) -> float | None:
    """The value of one run, from its summary; None where it has none.

    `step_seconds` follows the assignment's rule: the mean of iterations 2 to 40 over all ranks. The
    loss of a script and its own metrics are the last ones, means over the ranks that have them.
    """
    if study.metric.startswith(NAMED):
        return _named(study.metric.removeprefix(NAMED), found["ranks"])
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


def _named(wanted: str, ranks: Sequence[Mapping[str, Any]]) -> float | None:
    """The value of a metric that a script names. Its loss, which is read by itself, is one, too,
    unless the script gives another one that name."""
    names = {name for rank in ranks for name in rank["metrics"]}
    name = match_metric(wanted, names)
    if name is not None:
        return _mean(rank["metrics"].get(name) for rank in ranks)
    is_loss = match_metric(wanted, [LOSS]) and not any(name.casefold() == LOSS for name in names)
    return _mean(rank["loss"] for rank in ranks) if is_loss else None


def match_metric(wanted: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that is meant: this very one, else the only one that differs
    in nothing but its case."""
    known = list(names)
    if wanted in known:
        return wanted
    alike = [name for name in known if name.casefold() == wanted.casefold()]
    return alike[0] if len(alike) == 1 else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
