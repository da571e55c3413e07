"""Finds what a user can do about what is wrong with a run. Pure."""

from __future__ import annotations

from remote.run.diagnosis.straggler import Straggler
from remote.run.diagnosis.straggler_cause import SlowKind
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.types import Stall
from training.job import Job, usual_lr
from training.registry import UnknownName


def advise_straggler(run: RunState, straggler: Straggler) -> Advice:
    """Return what helps against a rank that all wait for. Without a cause that a user can remove,
    its stack may show more."""
    host = run.host_name(straggler.host)
    step_seconds = _estimate_step(run, straggler)
    match straggler.cause.kind if straggler.cause else None:
        case SlowKind.FEW_CORES | SlowKind.GPU_CLOCK if len(run.plan.hosts) > 1:
            return Advice(Remedy.EXCLUDE_HOST, host, step_seconds=step_seconds)
        case SlowKind.OTHER_PROGRAMS:
            return Advice(Remedy.END_PROGRAMS, host, step_seconds=step_seconds)
    return Advice(Remedy.SHOW_STACKS, host)


def advise_stall(run: RunState, stall: Stall) -> Advice:
    """Return what helps against a stall: to let a rank go on that a signal has stopped. Without
    such a rank, the stacks may show more."""
    # Of more than one, each would need a command of its own.
    stopped_ranks = [run.ranks[number] for number in stall.stopped]
    if len(stopped_ranks) == 1 and stopped_ranks[0].pid:
        (rank,) = stopped_ranks
        return Advice(Remedy.CONTINUE_RANK, run.host_name(rank.host), rank=rank.rank)
    return Advice(Remedy.SHOW_STACKS)


def advise_flaw(run: RunState, flaw: Flaw) -> Advice | None:
    """Return with which other settings a run that has ended may do better; None if that is not
    known."""
    job = run.plan.job
    lr = job.lr if job else 0.0
    match flaw.kind:
        case FlawKind.DIVERGED:
            return Advice(Remedy.LOWER_LR, lr=lr, usual_lr=_find_usual_lr(job))
        case FlawKind.LEARNED_NOTHING:
            return Advice(Remedy.OTHER_LR, lr=lr)
        case FlawKind.OVERFITTED:
            return Advice(Remedy.FEWER_EPOCHS, best_epoch=flaw.epoch, best_step=flaw.step)
        case FlawKind.SLOW:
            return _advise_slow_run(run, flaw.rank)
    return None


def _find_usual_lr(job: Job | None) -> float:
    """Return the default learning rate of a model; 0 if this version does not know the model."""
    if job is None:
        return 0.0
    try:
        return usual_lr(job.model)
    except UnknownName:
        return 0.0


def _advise_slow_run(run: RunState, rank: int) -> Advice | None:
    """Return what would have helped; None if only its stack could have told."""
    episodes = [each for each in run.stragglers.episodes if each.straggler.rank == rank]
    straggler = run.stragglers.current(rank) or episodes[-1].straggler
    advice = advise_straggler(run, straggler)
    return None if advice.remedy is Remedy.SHOW_STACKS else advice


def _estimate_step(run: RunState, straggler: Straggler) -> float:
    """Return the seconds of a step if this rank were no slower than others; 0 if another host would
    then hold it up as much."""
    other_times = [
        other.ready for other in run.stragglers.by_rank.values() if other.host != straggler.host
    ]
    saved_seconds = straggler.ready - max([straggler.others, *other_times])
    return straggler.step - saved_seconds if 0 < saved_seconds < straggler.step else 0.0
