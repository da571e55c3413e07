"""What a study keeps of a run: the value that it compares, and remarks. Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from remote.format import listed
from remote.record.remarks import find_remarks
from remote.run.findings.flaws import find_flaws, is_at_chance
from remote.run.run_state import RunState
from remote.run.state.flaw import FlawKind
from remote.study.study import Cell, Study, named_metric
from training.registry import did_you_mean

LOSS = "loss"
"""The name of the training loss, which is read of most scripts."""
SHOWN_METRICS = 10
"""Metrics of a run that a message names."""


def describe_missing(study: Study, state: RunState) -> str:
    """Return what a run lacks that has finished without a value of what the study compares."""
    missing_text = f"the run has no {study.measured}"
    diverged = state.progress.diverged
    if diverged:
        return f"{missing_text}: {diverged.text}"
    metric_name = named_metric(study.metric)
    metric_names = list(state.metrics.named)
    if LOSS not in metric_names and any(math.isfinite(rank.loss) for rank in state.ranks):
        metric_names.append(LOSS)
    return (
        missing_text + describe_others(metric_name, metric_names) if metric_name else missing_text
    )


def describe_others(name: str, names: Sequence[str]) -> str:
    """Return which metrics a run has that has none of this name, with the nearest one."""
    if not names:
        return ", nor any other metric"
    return f"; it has {listed(names, SHOWN_METRICS)}{did_you_mean(name, names)}"


def list_remarks(cell: Cell, state: RunState) -> tuple[str, ...]:
    """Return what one has to know to compare the run with others."""
    remark_texts = [remark.text for remark in find_remarks(state)]
    divergences = [
        f"{cell.key} {flaw.text}" for flaw in find_flaws(state) if flaw.kind is FlawKind.DIVERGED
    ]
    return (*divergences, *remark_texts)


def ends_at_chance(state: RunState) -> bool:
    """Return True if the last test of a run, of however few steps, is no better than guesses."""
    tests = state.progress.evaluations
    return bool(tests) and is_at_chance(tests[-1])


def general_cause(state: RunState) -> str:
    """Return why a run failed, without the names of its hosts: equal for runs that fail alike."""
    cause = state.cause.problem if state.cause else state.stop_reason
    host_names = {host.name for host in state.hosts}
    host_names |= {host.hello.hostname for host in state.hosts if host.hello}
    # The longest goes first, since a name may be a part of another.
    for host_name in sorted(filter(None, host_names), key=len, reverse=True):
        cause = re.sub(rf"(?<![\w.-]){re.escape(host_name)}(?![\w-])", "HOST", cause)
    return cause


def first_and_last_loss(state: RunState) -> tuple[float, float] | None:
    """Return the training loss at both ends of its curve, means over the ranks.

    Return None unless both are finite.
    """
    ranks = state.curves.rows("loss")
    if not ranks:
        return None
    loss_curves = [state.curves.of("loss", rank).mean for rank in ranks]
    first_loss = statistics.fmean(float(curve[0]) for curve in loss_curves)
    last_loss = statistics.fmean(float(curve[-1]) for curve in loss_curves)
    return (
        (first_loss, last_loss) if math.isfinite(first_loss) and math.isfinite(last_loss) else None
    )


def read_value(study: Study, run_summary: Mapping[str, Any]) -> float | None:
    """Return the value of a run from its summary, or None if it has none.

    `step_seconds` follows the assignment's rule: the mean of iterations 2 to 40 over all ranks. The
    loss of a script is the training loss that all tables show of a run. Its own metrics are the
    last ones, means over the ranks that have them.
    """
    metric_name = named_metric(study.metric)
    if metric_name:
        return _read_named(metric_name, run_summary)
    test_result = run_summary.get("test") or {}
    value: float | None
    match study.metric:
        case "step_seconds":
            value = run_summary["means"]["iterations_2_to_40"]["seconds"]
        case "elapsed":
            value = run_summary["training_seconds"]
        case "loss" if study.is_of_script:
            value = run_summary["training_loss"]
        case metric:
            value = test_result.get(metric)
    return float(value) if value is not None else None


def _read_named(metric_name: str, run_summary: Mapping[str, Any]) -> float | None:
    """Return the value of a metric that a script names.

    The loss, which is read by itself, is one, too, unless the script gives another one that name.
    """
    ranks = run_summary["ranks"]
    known_names = {matched_name for rank in ranks for matched_name in rank["metrics"]}
    # Names of metrics of one's own go first: a script may print a loss of another kind.
    matched_name = match_metric(metric_name, known_names)
    if matched_name is not None:
        return _mean_of_known(rank["metrics"].get(matched_name) for rank in ranks)
    has_own_loss = any(matched_name.casefold() == LOSS for matched_name in known_names)
    if match_metric(metric_name, [LOSS]) and not has_own_loss:
        training_loss: float | None = run_summary["training_loss"]
        return training_loss
    return None


def match_metric(wanted_name: str, names: Iterable[str]) -> str | None:
    """Return the name that is meant: this very one, else the only one that differs in case."""
    known_names = list(names)
    if wanted_name in known_names:
        return wanted_name
    similar_names = [name for name in known_names if name.casefold() == wanted_name.casefold()]
    return similar_names[0] if len(similar_names) == 1 else None


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return statistics.fmean(known_values) if known_values else None
