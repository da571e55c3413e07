"""The summary of a run, as a JSON-ready object beside its records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from remote.format import count, size
from remote.plan.plan import Plan, Script
from remote.record.classification import Report, matrix
from remote.run.findings import script_visibility as seen
from remote.run.findings.alerts import find_alerts
from remote.run.run_state import RunState
from remote.run.series.step_times import Means, join_means
from remote.run.state.host_state import HostState
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause
from training.formatting import format_loss
from training.wire.events import Epoch, Evaluated, Hello

LATER_FACTS = ("data_damaged", "data_unread", "data_unreachable", "link_speeds")
"""Facts of hosts that older runs lack. They are left out where nothing is known, so that the
summary of such a run stays as it was."""


def of(state: RunState) -> dict[str, Any]:
    """Return the summary of a run. Times in seconds, accuracies as fractions; what is not known is
    None."""
    summary: dict[str, Any] = finite(
        {
            "run": state.plan.run,
            "verdict": state.verdict.word if state.verdict else None,
            "exit_code": state.verdict.value if state.verdict else None,
            "cause": _cause(state.cause) if state.cause else None,
            "unconfirmed": [host.name for host in state.unconfirmed],
            "started": state.started,
            "elapsed": state.elapsed,
            "steps": state.progress.steps,
            "diverged": _diverged(state),
            "training_seconds": state.training_seconds,
            "means": _means(
                *(
                    join_means(getattr(rank.timing, what) for rank in state.ranks)
                    for what in ("early", "warm", "whole")
                )
            ),
            **_work(state.plan),
            "test": _test(state),
            **_metrics(state),
            **_written(state),
            "evaluations": [_evaluation(one) for one in state.progress.evaluations],
            "ranks": [_rank(rank, state) for rank in state.ranks],
            "hosts": [_host(host) for host in state.hosts],
            "stalls": [asdict(stall) for stall in state.stalls],
            "alerts": [asdict(alert) for alert in find_alerts(state)],
            "restarts": [asdict(restart) for restart in state.progress.restarts],
            "remarks": [remark.text for remark in remarks(state)],
        }
    )
    return summary


def _cause(found: Cause) -> dict[str, Any]:
    fields = asdict(found)
    del fields["names_hosts"]
    if not found.lack:  # older runs lack it, and their summaries stay as they were
        del fields["lack"]
    return fields | {"text": found.text()}


def _work(of: Plan) -> dict[str, Any]:
    return {
        "job": asdict(of.job) if of.job else None,
        "script": of.work.words if isinstance(of.work, Script) else None,
    }


def _metrics(state: RunState) -> dict[str, Any]:
    """What a user's own program told by name, on the first rank that did; nothing of a job."""
    if state.plan.job:
        return {}
    return {
        "metrics": {name: asdict(metric) for name, metric in state.metrics.named.items()},
        "metrics_beyond": len(state.metrics.beyond),
        "read_as": state.progress.formats,
        "lines_not_read": seen.unread(state),
    }


def _written(state: RunState) -> dict[str, Any]:
    """Return the files that a script wrote on hosts; nothing if none is known of."""
    found = [
        {"host": host.name, "files": host.ended.written, "count": host.ended.written_count}
        for host in state.hosts
        if host.ended and host.ended.written
    ]
    return {"written": found} if found else {}


def plan(of: Plan) -> dict[str, Any]:
    """Return a plan as a reader of its run's events needs it: what is done, and which rank runs
    where. It has neither secrets nor the ways to the hosts."""
    return {
        **_work(of),
        "world_size": of.world_size,
        "ranks": [
            {"rank": slot.rank, "local_rank": slot.local_rank, "host": of.hosts[slot.host].name}
            for slot in of.slots
        ],
        "policy": asdict(of.policy),
    }


class RemarkKind(StrEnum):
    """What a remark on a run is about."""

    SHARED_MACHINE = "shared machine"
    """Hosts were one machine with fewer cores than they count together."""
    CHECKPOINT_COST = "checkpoint cost"
    """How long checkpoints took, and how large they are."""
    DRIFT = "drift"
    """The models of the ranks differed."""


@dataclass(frozen=True)
class Remark:
    """Something that a reader has to know who compares the figures of runs."""

    kind: RemarkKind
    text: str

    @property
    def is_warning(self) -> bool:
        """Return True if figures of the run may mislead."""
        return self.kind is not RemarkKind.CHECKPOINT_COST


def remarks(state: RunState) -> list[Remark]:
    """Return what a reader who compares the figures of runs has to know: `machine_remarks` and
    `training_remarks`."""
    return [*machine_remarks(state), *training_remarks(state)]


def training_remarks(state: RunState) -> list[Remark]:
    """Return what the checkpoints cost, and whether the ranks' models drifted apart."""
    return [*_checkpoints(state), *_drift(state)]


def machine_remarks(state: RunState) -> list[Remark]:
    """Return which hosts were one machine, and shared more cores than it has. The user of the run
    has read that at its start."""
    machines = []
    for hosts in shared_machines(state):
        text = (
            f"{_names(hosts)} are the same machine ({len(hosts[0].cpu)} cores): their times say "
            "nothing about separate machines"
        )
        machines.append(Remark(RemarkKind.SHARED_MACHINE, text))
    return machines


def shared_machines(state: RunState) -> list[list[HostState]]:
    """Return the hosts that are one machine, for each machine that has fewer cores than its hosts
    count together. Those of a lab count only the cores that they may use."""
    machines: dict[str, list[HostState]] = {}
    for host in state.hosts:
        if host.hello and host.cpu:
            machines.setdefault(host.hello.boot_id, []).append(host)
    return [
        hosts
        for hosts in machines.values()
        if len(hosts) > 1
        and sum(host.hello.cores for host in hosts if host.hello) > len(hosts[0].cpu)
    ]


def _names(hosts: Sequence[HostState]) -> str:
    *head, last = (host.name for host in hosts)
    return f"{', '.join(head)} and {last}"


def report(state: RunState) -> str:
    """Return the last evaluation's classification report and confusion matrix, to read; "" where
    there is no matrix."""
    last = state.progress.evaluations[-1] if state.progress.evaluations else None
    if not last or not last.confusion:
        return ""
    found = (
        f"test loss {format_loss(last.loss)}, test accuracy {last.accuracy:.2%}, {last.samples} "
        "samples"
    )
    return "\n".join(
        (
            f"{state.plan.run} after epoch {last.epoch}, step {last.step}: {found}\n",
            Report.of(last.confusion, last.classes).text(),
            "confusion matrix: row is the true class, column the predicted\n",
            matrix(last.confusion, last.classes),
        )
    )


def _checkpoints(state: RunState) -> Iterator[Remark]:
    slowest = max(state.ranks, key=lambda rank: rank.saving_seconds, default=None)
    if slowest and slowest.saved:
        took = slowest.saving_seconds
        extent = sum(rank.saved_bytes for rank in state.ranks)
        what = count(slowest.saved, "checkpoint")
        spent = f"took {took:.2f} s of the run's {state.elapsed:.2f} s"
        text = f"{what} of {size(extent)} {spent}; the newest is of step {slowest.saved_step}"
        yield Remark(RemarkKind.CHECKPOINT_COST, text)


def _drift(state: RunState) -> Iterator[Remark]:
    if state.progress.drift and state.progress.largest_drift:
        text = (
            f"drift: from step {state.progress.drift.step} on the ranks' models differed, at most "
            f"{state.progress.largest_drift.extent}"
        )
        yield Remark(RemarkKind.DRIFT, text)


def finite(value: Any) -> Any:
    """Return the same with None for every number that strict JSON cannot say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _rank(rank: RankState, state: RunState) -> dict[str, Any]:
    timing = rank.timing
    return {
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
        "timing_rule": timing.rule,
        "median": timing.median,
        "p95": timing.p95,
        "mean": timing.mean,
        "means": _means(timing.early, timing.warm, timing.whole),
        "epoch_seconds": rank.epoch_seconds,
        "epochs": [_epoch(epoch) for epoch in rank.epochs],
        "resumed": rank.begun.resumed if rank.begun else None,
        "checkpoints": rank.saved,
        "checkpoint_step": rank.saved_step or None,
        "checkpoint_bytes": rank.saved_bytes or None,
        "checkpoint_seconds": rank.saving_seconds,
        "device": rank.begun.device if rank.begun else None,
        "backend": rank.begun.backend if rank.begun else None,
        "torch": rank.begun.torch if rank.begun else None,
        "threads": rank.begun.threads if rank.begun else None,
        "parameters": rank.begun.parameters if rank.begun else None,
    } | ({"metrics": rank.metrics} if isinstance(rank, ScriptRank) else {})


def _means(early: Means, warm: Means, whole: Means) -> dict[str, Any]:
    """What an iteration took, in seconds and as shares of it, over iterations 2 to 40, over all but
    the first, and over all."""
    found: dict[str, Any] = {}
    for name, means in (
        ("iterations_2_to_40", early),
        ("iterations_from_2", warm),
        ("all_iterations", whole),
    ):
        shares = {
            f"{phase}_share": means.share(getattr(means, phase))
            for phase in ("data", "compute", "sync")
        }
        seconds = {phase: getattr(means, phase) for phase in ("seconds", "data", "compute", "sync")}
        found[name] = seconds | shares | {"samples_per_second": means.throughput}
    return found


def _diverged(state: RunState) -> dict[str, Any] | None:
    """Where the loss was first no finite number; `loss` is that number by name, as strict JSON has
    none."""
    first = state.progress.diverged
    return {"rank": first.rank, "step": first.step, "loss": str(first.value)} if first else None


def _epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "epoch": epoch.epoch,
        "step": epoch.step,
        "train_loss": epoch.loss,
        "train_accuracy": epoch.accuracy,
        "samples": epoch.samples,
        "seconds": epoch.seconds,
    }


def _evaluation(found: Evaluated) -> dict[str, Any]:
    return {
        name: getattr(found, name)
        for name in ("epoch", "step", "loss", "accuracy", "samples", "seconds")
    }


def _test(state: RunState) -> dict[str, Any] | None:
    if not state.progress.evaluations:
        return None
    last = state.progress.evaluations[-1]
    if not last.confusion:
        return {"confusion": None, "classes": None, "report": None} | _evaluation(last)
    report = Report.of(last.confusion, last.classes)
    return {
        "confusion": last.confusion,
        "classes": last.classes or None,
        "report": report.object(),
    } | _evaluation(last)


def _host(host: HostState) -> dict[str, Any]:
    return {
        "name": host.name,
        "phase": host.phase.value,
        "reason": host.reason,
        "clock_offset": host.offset,
        "facts": _facts(host.hello) if host.hello else None,
    }


def _facts(hello: Hello) -> dict[str, Any]:
    facts = asdict(hello)
    return {name: fact for name, fact in facts.items() if fact or name not in LATER_FACTS}
