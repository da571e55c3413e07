"""Finds how far a run is though the reports of its hosts come at different moments. Pure."""

from __future__ import annotations

from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase


def common_step(run: RunState) -> int:
    """Return the step that all ranks have made, as far as that is known.

    Ranks that meet in each step are never more than one apart, so what one of them has reported
    tells of the others, too. Of other ranks, it is the smallest step that one has reported.
    """
    job = run.plan.job
    reported_step = run.step
    newest_step = max((rank.step for rank in run.ranks), default=0)
    if job is None or run.phase is RunPhase.ENDED or newest_step <= reported_step + 1:
        return reported_step
    traits = job.traits()
    return newest_step - 1 if traits.exact and not traits.stale else reported_step
