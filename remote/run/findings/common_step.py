"""Finds how far a run is though the reports of its hosts come at different moments. Pure."""

from __future__ import annotations

from operator import attrgetter

from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase


def common_step(run: RunState) -> int:
    """Return the step that all ranks have made, as far as that is known.

    Ranks that meet in each step are never more than one apart, so what one of them has reported
    tells of the others, too. Of other ranks, it is the smallest step that one has reported.
    """
    job = run.plan.job
    if job is None or run.phase is RunPhase.ENDED:
        return run.step
    traits = job.traits()
    if traits.stale or not traits.exact:
        return run.step
    # By `map`, as a run may have a thousand ranks.
    newest_step = max(map(attrgetter("step"), run.ranks), default=0)
    return max(run.step, newest_step - 1)
