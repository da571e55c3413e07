"""Finds what a user can do about what is wrong with a run. Pure."""

from __future__ import annotations

from remote.run.diagnosis.straggler import Straggler
from remote.run.diagnosis.straggler_cause import SlowKind
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy


def advise_straggler(run: RunState, straggler: Straggler) -> Advice:
    """Return what helps against a rank that all wait for. Without a cause that a user can remove,
    its stack may show more."""
    host = run.host_name(straggler.host)
    step_seconds = _estimate_step(run, straggler)
    match straggler.cause.kind if straggler.cause else None:
        case SlowKind.FEW_CORES | SlowKind.GPU_CLOCK if not run.plan.is_local:
            return Advice(Remedy.EXCLUDE_HOST, host, step_seconds)
        case SlowKind.OTHER_PROGRAMS:
            return Advice(Remedy.END_PROGRAMS, host, step_seconds)
    return Advice(Remedy.SHOW_STACKS, host)


def _estimate_step(run: RunState, straggler: Straggler) -> float:
    """Return the seconds of a step if this rank were no slower than others; 0 if another host would
    then hold it up as much."""
    other_times = [
        other.ready for other in run.stragglers.by_rank.values() if other.host != straggler.host
    ]
    saved_seconds = straggler.ready - max([straggler.others, *other_times])
    return straggler.step - saved_seconds if 0 < saved_seconds < straggler.step else 0.0
