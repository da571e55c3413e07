"""How long a run may take, by the newest recorded run on the same hosts whose steps are as much
work, rather one without a flaw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from remote.format import approximate, count, duration, step_time
from remote.plan.expected import expect_work, steps_per_epoch
from remote.plan.plan import Plan
from remote.record import index
from remote.record.entry import FINISHED, Entry
from training.job import Job, names_by_effect
from training.setting import SAME_STEP_WORK
from tui.launch.recent_work import parse_work

FEWEST_STEPS = 10
"""Steps that a recorded run has to have made."""
MOST_RUNS = 200
"""Recorded runs that are looked at, the newest ones."""


class TimedRun(NamedTuple):
    """A recorded run that tells how long others take."""

    job: Job
    run: Entry

    def beside_steps(self, epochs: int) -> float:
        """Return the seconds that a run of so many epochs takes beside its steps: its start, a test
        after each epoch, and its end. Of a run of an older version, they are not known apart."""
        run = self.run
        step_seconds = run.step_seconds or 0.0
        elapsed = run.elapsed or 0.0
        own_epochs = self._count_epochs()
        if run.times is None or not own_epochs or not epochs:
            return max(0.0, elapsed - run.step * step_seconds)
        # The first step warms up, so it counts as part of the start as far as it took longer.
        start_seconds = run.times.first_step - step_seconds
        # With the test after the last epoch.
        end_seconds = elapsed - run.times.last_step
        training_seconds = run.times.last_step - run.times.first_step
        seconds_between = max(0.0, training_seconds - (run.step - 1) * step_seconds)
        between_epochs = run.times.test
        if own_epochs > 1:
            between_epochs = seconds_between / (own_epochs - 1)
        return max(0.0, start_seconds) + max(0.0, end_seconds) + (epochs - 1) * between_epochs

    def _count_epochs(self) -> int:
        """Return the epochs of the run, the last one counted whole; 0 if that is not known."""
        num_trainers = len(self.job.trainers(self.run.ranks))
        epoch_steps = steps_per_epoch(self.job, num_trainers)
        return -(-self.run.step // epoch_steps) if epoch_steps else 0


def list_timed_runs(runs_dir: Path) -> list[TimedRun]:
    """Return the runs recorded in a folder that tell how long others take, those without a flaw
    first, of these those of no study, and of each kind the newest first."""
    timed_runs = []
    for run in reversed(index.entries(runs_dir)[-MOST_RUNS:]):
        if run.verdict != FINISHED or run.step < FEWEST_STEPS or not run.step_seconds:
            continue
        job = parse_work(run)
        if isinstance(job, Job):
            timed_runs.append(TimedRun(job, run))
    # A slow host or a loss that is no number may have made the steps of a run longer, and the
    # hosts of a study keep a Python ready, so that its runs start faster.
    return sorted(timed_runs, key=lambda timed: (bool(timed.run.flaws), bool(timed.run.study)))


def describe_estimate(plan: Plan, timed_runs: Iterable[TimedRun]) -> str:
    """Say how long a planned run takes: "takes ~12 s: 23 steps of 39 ms, 11 s start and tests, from
    run 'baseline'". Where no run tells, say how many steps it makes; "" if that is not known
    either.
    """
    work = expect_work(plan)
    job = plan.job
    total_steps = job.total_steps(work.steps_per_epoch) if job and work else 0
    if job is None or not total_steps:
        return ""
    host_names = [host.name for host in plan.hosts]
    similar_runs = (
        timed
        for timed in timed_runs
        if timed.run.ranks == plan.world_size
        and list(timed.run.hosts) == host_names
        and _work_of_step(timed.job) == _work_of_step(job)
    )
    similar = next(similar_runs, None)
    if similar is None:
        return f"{count(total_steps, 'step')}; how long they take is known after a first run"
    step_seconds = similar.run.step_seconds or 0.0
    epochs = -(-total_steps // work.steps_per_epoch) if work and work.steps_per_epoch else 0
    beside_steps = similar.beside_steps(epochs)
    seconds = total_steps * step_seconds + beside_steps
    run_name = similar.run.label or similar.run.name
    steps_text = f"{count(total_steps, 'step')} of {step_time(step_seconds)}"
    beside_text = f"{duration(beside_steps)} start and tests"
    return f"takes {approximate(seconds)}: {steps_text}, {beside_text}, from run '{run_name}'"


def _work_of_step(job: Job) -> Sequence[object]:
    """Return the settings on which the work of a step depends."""
    other_names = names_by_effect(*SAME_STEP_WORK)
    return [getattr(job, field.name) for field in fields(job) if field.name not in other_names]
