"""What became of a run, as the JSON-ready object that stays beside its records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from remote.plan import Script
from remote.run import HostState, RankState, RunState


def of(state: RunState) -> dict[str, Any]:
    """The summary of a run. Times in seconds, accuracies as fractions; what is not known is None."""
    work = state.plan.work
    summary: dict[str, Any] = finite(
        {
            "run": state.plan.run,
            "verdict": state.verdict.name.lower() if state.verdict else None,
            "exit_code": state.verdict.value if state.verdict else None,
            "cause": asdict(state.cause) | {"text": state.cause.text()} if state.cause else None,
            "started": state.started,
            "elapsed": state.elapsed,
            "steps": state.total_steps,
            "job": None if isinstance(work, Script) else asdict(work),
            "script": work.words if isinstance(work, Script) else None,
            "ranks": [_rank(rank, state) for rank in state.ranks],
            "hosts": [_host(host) for host in state.hosts],
            "remarks": remarks(state),
        }
    )
    return summary


def remarks(state: RunState) -> list[str]:
    """What who compares the figures of runs has to know: which hosts were one machine, and shared more cores than it has;
    what the checkpoints cost."""
    machines: dict[str, list[HostState]] = {}
    for host in state.hosts:
        if host.hello and host.cpu:
            machines.setdefault(host.hello.boot_id, []).append(host)
    shared = [
        f"{', '.join(host.name for host in hosts)} share the {len(hosts[0].cpu)} cores of one machine: "
        "more of them give no more computing power"
        for hosts in machines.values()
        if len(hosts) > 1 and sum(host.hello.cores for host in hosts if host.hello) > len(hosts[0].cpu)
    ]
    return [*shared, *_checkpoints(state)]


def _checkpoints(state: RunState) -> Iterator[str]:
    slowest = max(state.ranks, key=lambda rank: rank.saving_seconds, default=None)
    if slowest and slowest.saved:
        took, size = slowest.saving_seconds, sum(rank.saved_bytes for rank in state.ranks) / 1e6
        what = "1 checkpoint" if slowest.saved == 1 else f"{slowest.saved} checkpoints"
        spent = f"took {took:.2f} s of the run's {state.elapsed:.2f} s"
        yield f"{what} of {size:.1f} MB {spent}; the newest is of step {slowest.saved_step}"


def finite(value: Any) -> Any:
    """The same with None for every number that strict JSON cannot say."""
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
        "timing_rule": timing.rule,
        "median": timing.median,
        "p95": timing.p95,
        "mean": timing.mean,
        "epoch_seconds": rank.epoch_seconds,
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
    }


def _host(host: HostState) -> dict[str, Any]:
    return {
        "name": host.name,
        "phase": host.phase.value,
        "reason": host.reason,
        "clock_offset": host.offset,
        "facts": asdict(host.hello) if host.hello else None,
    }
