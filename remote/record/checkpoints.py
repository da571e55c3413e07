"""Which checkpoints of a recorded run this machine knows of. Others may lie on the hosts."""

from __future__ import annotations

from pathlib import Path

from remote.record.files import contains, is_folder
from remote.record.layout import EVENTS, NODE, fetched, kept
from remote.record.read import summarized, verdict
from training.agent.layout import step_of
from training.job import Job


def saved_step(recorded: Path) -> int:
    """The step of the newest complete checkpoint of a run, as far as this machine knows it; 0 where
    it knows of none."""
    steps = [step_of(manifest) for manifest in (*fetched(recorded), *kept(recorded))]
    ranks = summarized(recorded).get("ranks") if not is_folder(recorded / NODE) else ()
    for rank in ranks if isinstance(ranks, list) else ():
        if isinstance(rank, dict) and isinstance(step := rank.get("checkpoint_step"), int):
            steps.append(step)
    return max(steps, default=0)


def has_saved(recorded: Path) -> bool:
    """Whether this machine knows of a checkpoint of the run."""
    return saved_step(recorded) > 0 or (
        not is_folder(recorded / NODE) and contains(recorded / EVENTS, rb"\"event\":\"saved\"")
    )


def may_have_saved(recorded: Path, job: Job) -> bool:
    """Whether the hosts may have a checkpoint that this machine does not know of, as the run was
    left or lost."""
    return bool(job.checkpoint_every) and verdict(recorded) in ("", "lost")
