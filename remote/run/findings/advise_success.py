"""Finds what makes a run faster that has gone well. Pure."""

from __future__ import annotations

from remote.run.findings.flaws import find_flaws
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from remote.run.state.phases import Verdict

MUCH_SYNC = 0.5
"""The share of a step from which on it is worth it to exchange gradients less often."""
FEWEST_STEPS = 4
"""Steps that an epoch should have left with a larger batch."""


def advise_success(run: RunState) -> Advice | None:
    """Return what makes a run of rankboard's own faster that has gone well: a larger batch if most
    of a step is sync, and an epoch has steps enough; None otherwise."""
    job, begun = run.plan.job, run.progress.begun
    if run.verdict is not Verdict.FINISHED or job is None or begun is None or find_flaws(run):
        return None
    is_bound_by_sync = run.means.share(run.means.sync) >= MUCH_SYNC
    if not is_bound_by_sync or begun.steps_per_epoch < 2 * FEWEST_STEPS:
        return None
    return Advice(Remedy.LARGER_BATCH, batch_size=job.batch_size)
