"""Summarize a run: the content of its `summary.json`.

To add a field, add it to `summarize`, or to the part that it belongs to below, and to the table of
fields in docs/running.md. Times are in seconds, accuracies are fractions, and what is not known is
None. A field that older runs cannot have is left out if nothing is known of it: the summary of a
recorded run stays the same, byte for byte.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from remote.plan.plan import Plan, Script
from remote.record.classification import ClassificationReport
from remote.record.remarks import find_remarks
from remote.run.findings import script_visibility
from remote.run.findings.alerts import find_alerts
from remote.run.run_state import RunState
from remote.run.series.step_times import Means, join_means
from remote.run.state.host_state import HostState
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause
from training.wire.events import Epoch, Evaluated, Hello

LATER_FACTS = ("data_damaged", "data_unread", "data_unreachable", "link_speeds")
"""Facts of hosts that older runs lack."""
HOW_FOUND = ("time", "evidence", "refused", "names_hosts")
"""Fields of a cause that only say how it was found, and how to make its text."""
PHASES = ("data", "compute", "sync")
"""The parts of an iteration."""


def summarize(state: RunState) -> dict[str, Any]:
    """Return the summary of a run."""
    summary: dict[str, Any] = {
        "run": state.plan.run,
        "verdict": state.verdict.word if state.verdict else None,
        "exit_code": state.verdict.value if state.verdict else None,
        "cause": _summarize_cause(state.cause) if state.cause else None,
        "unconfirmed": [host.name for host in state.unconfirmed],
        "started": state.started,
        "elapsed": state.elapsed,
        "steps": state.progress.steps,
        "diverged": _summarize_divergence(state),
        "training_seconds": state.training_seconds,
        "means": _summarize_means(
            join_means(rank.timing.early for rank in state.ranks),
            join_means(rank.timing.warm for rank in state.ranks),
            join_means(rank.timing.whole for rank in state.ranks),
        ),
        **_describe_work(state.plan),
        "test": _summarize_test(state),
        **_summarize_script(state),
        **_list_written_files(state),
        "evaluations": [_summarize_evaluation(result) for result in state.progress.evaluations],
        "ranks": [_summarize_rank(rank, state) for rank in state.ranks],
        "hosts": [_summarize_host(host) for host in state.hosts],
        "stalls": [asdict(stall) for stall in state.stalls],
        "alerts": [asdict(alert) for alert in find_alerts(state)],
        "restarts": [asdict(restart) for restart in state.progress.restarts],
        "remarks": [remark.text for remark in find_remarks(state)],
    }
    return {key: to_strict_json(value) for key, value in summary.items()}


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as a reader of its run's events needs it: what is done, and which rank runs
    where. It has neither secrets nor the ways to the hosts."""
    ranks = [
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
        "ranks": ranks,
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
    summary = asdict(cause)
    for field in HOW_FOUND:
        del summary[field]
    if not cause.lack:
        del summary["lack"]
    summary["text"] = cause.text()
    return summary


def _describe_work(plan: Plan) -> dict[str, Any]:
    return {
        "job": asdict(plan.job) if plan.job else None,
        "script": plan.work.words if isinstance(plan.work, Script) else None,
    }


def _summarize_divergence(state: RunState) -> dict[str, Any] | None:
    """Return where the loss was first no finite number; None if it never was."""
    first = state.progress.diverged
    if first is None:
        return None
    # The loss is text, such as "nan": strict JSON has no such number.
    return {"rank": first.rank, "step": first.step, "loss": str(first.value)}


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
    written = list[dict[str, Any]]()
    for host in state.hosts:
        if host.ended and host.ended.written:
            count = host.ended.written_count
            written.append({"host": host.name, "files": host.ended.written, "count": count})
    return {"written": written} if written else {}


def _summarize_means(early: Means, warm: Means, whole: Means) -> dict[str, Any]:
    """Return the mean times of an iteration over iterations 2 to 40, over all but the first, and
    over all."""
    return {
        "iterations_2_to_40": _summarize_mean(early),
        "iterations_from_2": _summarize_mean(warm),
        "all_iterations": _summarize_mean(whole),
    }


def _summarize_mean(means: Means) -> dict[str, Any]:
    """Return what an iteration took, in seconds and as shares of it."""
    phases = {phase: getattr(means, phase) for phase in PHASES}
    shares = {f"{phase}_share": means.share(value) for phase, value in phases.items()}
    return {"seconds": means.seconds, **phases, **shares, "samples_per_second": means.throughput}


def _summarize_evaluation(result: Evaluated) -> dict[str, Any]:
    return {
        "epoch": result.epoch,
        "step": result.step,
        "loss": result.loss,
        "accuracy": result.accuracy,
        "samples": result.samples,
        "seconds": result.seconds,
    }


def _summarize_test(state: RunState) -> dict[str, Any] | None:
    """Return the last evaluation, with its classification report; None if there was none."""
    if not state.progress.evaluations:
        return None
    last = state.progress.evaluations[-1]
    confusion = last.confusion or None
    report = ClassificationReport.of(confusion, last.classes).to_object() if confusion else None
    return {
        "confusion": confusion,
        "classes": (last.classes or None) if confusion else None,
        "report": report,
        **_summarize_evaluation(last),
    }


# Ranks and hosts ----------------------------------------------------------------------------------


def _summarize_rank(rank: RankState, state: RunState) -> dict[str, Any]:
    timing = rank.timing
    begun = rank.begun
    summary = {
        "rank": rank.rank,
        "host": state.host_name(rank.host),
        "fate": rank.phase.value,
        "exit": rank.exit,
        "epoch": rank.epoch,
        "step": rank.step,
        "loss": rank.loss,
        "accuracy": rank.accuracy,
        "test_loss": rank.test_loss,
        "test_accuracy": rank.test_accuracy,
        "own_accuracy": rank.own_accuracy,
        "timing_rule": timing.early.seconds,
        "median": timing.median,
        "p95": timing.p95,
        "mean": timing.whole.seconds,
        "means": _summarize_means(timing.early, timing.warm, timing.whole),
        "epoch_seconds": rank.epoch_seconds,
        "epochs": [_summarize_epoch(epoch) for epoch in rank.epochs],
        "resumed": begun.resumed if begun else None,
        "checkpoints": rank.saved,
        "checkpoint_step": rank.saved_step or None,
        "checkpoint_bytes": rank.saved_bytes or None,
        "checkpoint_seconds": rank.saving_seconds,
        "device": begun.device if begun else None,
        "backend": begun.backend if begun else None,
        "torch": begun.torch if begun else None,
        "threads": begun.threads if begun else None,
        "parameters": begun.parameters if begun else None,
    }
    if isinstance(rank, ScriptRank):
        summary["metrics"] = rank.metrics
    return summary


def _summarize_epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.epoch,
        "step": epoch.step,
        "train_loss": epoch.loss,
        "train_accuracy": epoch.accuracy,
        "samples": epoch.samples,
        "seconds": epoch.seconds,
    }


def _summarize_host(host: HostState) -> dict[str, Any]:
    return {
        "name": host.name,
        "phase": host.phase.value,
        "reason": host.reason,
        "clock_offset": host.offset,
        "facts": _summarize_facts(host.hello) if host.hello else None,
    }


def _summarize_facts(hello: Hello) -> dict[str, Any]:
    facts = asdict(hello)
    return {name: fact for name, fact in facts.items() if fact or name not in LATER_FACTS}
