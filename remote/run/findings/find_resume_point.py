"""Finds from where a run that has ended can go on. Pure."""

from __future__ import annotations

from remote.run.run_state import RunState
from remote.run.state.resume_point import ResumePoint


def find_resume_point(run: RunState) -> ResumePoint | None:
    """Return the newest checkpoint; None if there is none, or of a script, whose checkpoints nobody
    knows."""
    saved_step = max((rank.saved_step for rank in run.ranks), default=0)
    if not saved_step or run.plan.job is None:
        return None
    return ResumePoint(saved_step, run.step)
