"""The training loss of a run: the one number that headers, lists, tables and reports show. Pure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from remote.run.diagnosis.divergence import LossRise
from remote.run.run_state import RunState
from remote.run.state.once_per_state import once_per_state
from remote.run.state.rank_state import Ranks
from remote.statistics.mean import finite_mean


@once_per_state
def find_training_loss(run: RunState) -> float | None:
    """Return the training loss of a run now, or at its end; None before the first step.

    It is the mean over ranks of their `recent_loss`.
    """
    return join_losses(run.ranks)


def join_losses(ranks: Ranks) -> float | None:
    """Return the mean over these ranks of their `recent_loss`; None before the first step.

    It is NaN or infinite once that of a single rank is: a mean would hide it.
    """
    rank_losses = [rank.recent_loss for rank in ranks]
    known_losses = [loss for loss in rank_losses if loss is not None]
    for loss in known_losses:
        if not math.isfinite(loss):
            return loss
    return finite_mean(known_losses) if known_losses else None


def is_mean_beside_prints(run: RunState) -> bool:
    """Return True if the training loss of a script is the mean of its last steps, as the watch sees
    them: the script itself may print another one, such as that of its last step, on some ranks."""
    if not run.progress.watched or run.progress.prints_other_loss:
        return False
    return not any(rank.shows_printed_loss for rank in run.ranks)


def find_loss_rise(run: RunState) -> LossRise | None:
    """Return how the training loss has risen far above the first one; while it is there, to what it
    is now. None if it never has."""
    rise = run.divergence.rise
    # Asked at each tick: the losses of all ranks are looked at only where they are needed.
    if rise is None or rise.over:
        return rise
    training_loss = find_training_loss(run)
    if training_loss is None or not math.isfinite(training_loss):
        return rise
    return replace(rise, loss=training_loss)


def find_divergence_step(run: RunState) -> int | None:
    """Return the step at which the loss of a run rose for good, or was no number."""
    rise = run.divergence.rise
    if run.progress.diverged:
        return run.progress.diverged.step
    return rise.step if rise and not rise.over else None
