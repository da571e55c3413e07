"""Summarize a run: the content of its `summary.json`.

To add a field, add it to `summarize`, or to the part that it belongs to below, and to the table of
fields in docs/reference/run-folder.md. Times are in seconds, accuracies are fractions, and what is
not known is None. A field that older runs cannot have is left out if nothing is known of it: the
summary of a recorded run stays the same, byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from remote.plan.plan import Plan
from remote.record.classification import ClassificationReport
from remote.record.remarks import find_remarks
from remote.run.findings import script_visibility
from remote.run.findings.alerts import find_alerts
from remote.run.findings.flaws import find_flaws
from remote.run.findings.training_loss import find_training_loss
from remote.run.run_state import RunState
from remote.run.series.step_times import Means
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause
from training.wire.host_events import Hello

LATER_FACTS = ("busiest", "data_damaged", "data_unread", "data_unreachable", "link_speeds")
"""Facts of hosts that older runs lack."""
HOW_FOUND = ("time", "evidence", "refused", "names_hosts", "pid", "may_be_later")
"""Fields of a cause that only say how it was found, and how to make its text."""
PHASES = ("data", "compute", "sync")
"""The parts of an iteration."""

# Each key of a part of the summary, and the attribute that it is taken from.
RANK = {
    "rank": "rank",
    "host": "host",
    "fate": "phase.value",
    "exit": "exit",
    "epoch": "epoch",
    "step": "step",
    "loss": "loss",
    "accuracy": "accuracy",
    "test_loss": "test_loss",
    "test_accuracy": "test_accuracy",
    "own_accuracy": "own_accuracy",
    "timing_rule": "timing.early.seconds",
    "median": "timing.median",
    "p95": "timing.p95",
    "mean": "timing.whole.seconds",
    "means": "timing",
    "epoch_seconds": "epoch_seconds",
    "epochs": "epochs",
    "resumed": "begun",
    "checkpoints": "saved",
    "checkpoint_step": "saved_step",
    "checkpoint_bytes": "saved_bytes",
    "checkpoint_seconds": "saving_seconds",
}
BEGUN = ("device", "backend", "torch", "threads", "parameters")
"""What a rank says as it begins."""
MEANS = {"iterations_2_to_40": "early", "iterations_from_2": "warm", "all_iterations": "whole"}
EPOCH = {
    "epoch": "epoch",
    "step": "step",
    "train_loss": "loss",
    "train_accuracy": "accuracy",
    "samples": "samples",
    "seconds": "seconds",
}
EVALUATION = {name: name for name in ("epoch", "step", "loss", "accuracy", "samples", "seconds")}
COLLECTIVES = {
    "count": "count",
    "bytes": "bytes",
    "seconds": "seconds",
    "newest": "newest.name",
}
HOST = {
    "name": "name",
    "phase": "phase.value",
    "reason": "reason",
    "clock_offset": "offset",
    "facts": "hello",
}


def summarize(state: RunState) -> dict[str, Any]:
    """Return the summary of a run."""
    progress = state.progress
    summary: dict[str, Any] = {
        "run": state.plan.run,
        "verdict": state.verdict.word if state.verdict else None,
        "exit_code": state.verdict.value if state.verdict else None,
        "cause": _summarize_cause(state.cause) if state.cause else None,
        "unconfirmed": [host.name for host in state.unconfirmed],
        "started": state.started,
        "elapsed": state.elapsed,
        "steps": progress.steps,
        "diverged": _summarize_divergence(state),
        **_list_flaws(state),
        "training_loss": find_training_loss(state),
        "training_seconds": state.training_seconds,
        "means": {
            key: _summarize_mean(state.join_means(mean_name)) for key, mean_name in MEANS.items()
        },
        **_describe_work(state.plan),
        "test": _summarize_test(state),
        **_summarize_script(state),
        **_list_written_files(state),
        "evaluations": [_pick(result, EVALUATION) for result in progress.evaluations],
        "ranks": [_summarize_rank(rank, state) for rank in state.ranks],
        "hosts": [_pick(host, HOST) for host in state.hosts],
        "stalls": list(map(asdict, state.stalls)),
        "alerts": list(map(asdict, find_alerts(state))),
        "restarts": list(map(asdict, progress.restarts)),
        "remarks": [remark.text for remark in find_remarks(state)],
    }
    for host in summary["hosts"]:
        host["facts"] = _summarize_facts(host["facts"]) if host["facts"] else None
    strict_summary: dict[str, Any] = to_strict_json(summary)
    return strict_summary


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as a reader of its run's events needs it: what is done, and which rank runs
    where. It has neither secrets nor the ways to the hosts."""
    rank_places = [
        {
            "rank": slot.rank,
            "local_rank": slot.local_rank,
            "host": plan.hosts[slot.host].name,
        }
        for slot in plan.slots
    ]
    return {
        **_describe_work(plan),
        "world_size": plan.world_size,
        "ranks": rank_places,
        "policy": asdict(plan.policy),
    }


def to_strict_json(value: Any) -> Any:
    """Return the same with None for every number that strict JSON cannot express."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: to_strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_strict_json(item) for item in value]
    return value


# The run ------------------------------------------------------------------------------------------


def _summarize_cause(cause: Cause) -> dict[str, Any]:
    summary = {
        "what" if field == "problem" else field: value
        for field, value in asdict(cause).items()
        if field not in HOW_FOUND
    }
    if not cause.lack:
        del summary["lack"]
    summary["text"] = cause.text()
    return summary


def _describe_work(plan: Plan) -> dict[str, Any]:
    return {
        "job": asdict(plan.job) if plan.job else None,
        "script": plan.script.words if plan.script else None,
    }


def _summarize_divergence(state: RunState) -> dict[str, Any] | None:
    """Return where the loss was first no finite number; None if it never was."""
    divergence = state.progress.diverged
    if divergence is None:
        return None
    # The loss is text, such as "nan": strict JSON has no such number.
    return {"rank": divergence.rank, "step": divergence.step, "loss": str(divergence.value)}


def _list_flaws(state: RunState) -> dict[str, Any]:
    """Return what spoils the result; no field at all of a run that has no flaws."""
    flaws = [asdict(flaw) | {"text": flaw.text} for flaw in find_flaws(state)]
    return {"flaws": flaws} if flaws else {}


def _summarize_script(state: RunState) -> dict[str, Any]:
    """Return what a script reported by name; no field at all for a job."""
    if state.plan.job:
        return {}
    return {
        "metrics": {name: asdict(metric) for name, metric in state.metrics.named.items()},
        "metrics_beyond": len(state.metrics.beyond),
        "read_as": state.progress.formats,
        "lines_not_read": script_visibility.unread(state),
    }


def _list_written_files(state: RunState) -> dict[str, Any]:
    """Return the files that a script wrote on hosts; no field at all if none is known of."""
    written_files = list[dict[str, Any]]()
    for host in state.hosts:
        if host.ended and host.ended.written:
            file_count = host.ended.written_count
            written_files.append(
                {"host": host.name, "files": host.ended.written, "count": file_count}
            )
    return {"written": written_files} if written_files else {}


def _pick(source: object, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return these fields of an object, under the keys that the summary has for them."""
    return {key: attrgetter(path)(source) for key, path in fields.items()}


def _summarize_mean(means: Means) -> dict[str, Any]:
    """Return what an iteration took, in seconds and as shares of it."""
    phase_seconds = {phase: getattr(means, phase) for phase in PHASES}
    phase_shares = {f"{phase}_share": means.share(value) for phase, value in phase_seconds.items()}
    return {
        "seconds": means.seconds,
        **phase_seconds,
        **phase_shares,
        "samples_per_second": means.throughput or None,  # 0: not told
    }


def _summarize_test(state: RunState) -> dict[str, Any] | None:
    """Return the last evaluation, with its classification report; None if there was none."""
    if not state.progress.evaluations:
        return None
    last_evaluation = state.progress.evaluations[-1]
    test_summary: dict[str, Any] = {"confusion": None, "classes": None, "report": None}
    if last_evaluation.confusion:
        report = ClassificationReport.of(
            last_evaluation.confusion, last_evaluation.classes
        ).to_object()
        test_summary |= {
            "confusion": last_evaluation.confusion,
            "classes": last_evaluation.classes or None,
            "report": report,
        }
    return test_summary | _pick(last_evaluation, EVALUATION)


# Ranks and hosts ----------------------------------------------------------------------------------


def _summarize_rank(rank: RankState, state: RunState) -> dict[str, Any]:
    summary = _pick(rank, RANK) | {name: getattr(rank.begun, name, None) for name in BEGUN}
    summary |= {
        "host": state.host_name(rank.host),
        "means": {key: _summarize_mean(mean) for key, mean in _pick(rank.timing, MEANS).items()},
        "epochs": [_pick(epoch, EPOCH) for epoch in rank.epochs],
        "resumed": rank.begun.resumed if rank.begun else None,
        "checkpoint_step": rank.saved_step or None,
        "checkpoint_bytes": rank.saved_bytes or None,
    }
    if isinstance(rank, ScriptRank):
        summary["metrics"] = rank.metrics
        if rank.only_exchanges:
            summary["collectives"] = _pick(rank.collectives, COLLECTIVES)
    if rank.process >= 0:
        summary |= {"process": rank.process, "pid": rank.pid}
    return summary


def _summarize_facts(hello: Hello) -> dict[str, Any]:
    host_facts = asdict(hello)
    return {
        fact_name: fact
        for fact_name, fact in host_facts.items()
        if fact or fact_name not in LATER_FACTS
    }
