"""Resumes an earlier run: which one `--resume` means, with which job, and where its
checkpoints lie.

It looks at what is recorded on this machine only. A run that is not may still have checkpoints on
the hosts: the ranks look.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from remote.plan.plan import Plan, PlanError
from remote.record import find as naming
from remote.record import layout
from remote.record.checkpoints import has_saved, may_have_saved, saved_step
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.layout import FETCHED, NODE, PLAN, fetched, local_run
from remote.record.read import load_plan, summarized
from training.agent.layout import LAST
from training.job import Job
from training.mistake import Mistake
from training.registry import did_you_mean, form_of


def job_of(given_settings: Mapping[str, Any], runs_dir: Path, is_local: bool) -> Job:
    """Return the job of flags (None where one is left out): where they go on from a recorded run,
    what they leave out is that run's. `is_local`: the hosts are this machine. Of `last`, the job
    has the name of the run that it means.

    Raises: JobError, UnknownName, PlanError.
    """
    resume = given_settings.get("resume") or ""
    recorded_run = find(resume, runs_dir, is_local) if resume else None
    if recorded_run is None:
        return Job.of(given_settings)
    chosen_settings = {name: value for name, value in given_settings.items() if value is not None}
    if resume == LAST:
        chosen_settings["resume"] = recorded_run.name
    plan, job = _load(recorded_run, resume)
    _check_place(plan, recorded_run, resume, is_local)
    inherited_settings = asdict(job)
    if "steps" in chosen_settings or "epochs" in chosen_settings:
        # A job has either; the one that is given replaces the other, too.
        inherited_settings |= {"steps": None, "epochs": None}
    if chosen_settings.get("sync", job.sync) != job.sync:
        # The options of one sync method mean nothing to another.
        inherited_settings["sync_option"] = ()
    return Job.of(inherited_settings | chosen_settings)


def located(job: Job, runs_dir: Path, is_local: bool, *, rank_count: int = 0) -> Job:
    """Return the job with `resume` as the ranks understand it: the run's name, or a folder on their
    hosts.

    `is_local`: the hosts are this machine; `rank_count`: their number. Raises: PlanError, where
    there is no such run, no checkpoint of it, or nothing left to train, as far as this machine can
    know.
    """
    resume = job.resume
    if not resume:
        return job
    recorded_run = find(resume, runs_dir, is_local)
    if recorded_run:
        plan, recorded_job = _load(recorded_run, resume)
        _check_same(job, recorded_job, plan.run)
        _check_place(plan, recorded_run, resume, is_local)
        checkpoint_place = _find_place(plan, recorded_job, recorded_run, resume, is_local)
        # With other ranks or settings, the same number of steps means something else.
        if rank_count == plan.world_size and not job.differs(recorded_job):
            _check_left(job, recorded_job, recorded_run)
        return replace(job, resume=checkpoint_place)
    # a path on the hosts, or a run that another machine launched
    if not is_local and resume != LAST:
        return job
    if not _is_path(resume):
        known_names = [folder.name for folder in layout.recorded(runs_dir)]
        problem_text = f"no run of this name in {runs_dir}{did_you_mean(resume, known_names) or ''}"
        raise _refusal(resume, problem_text)
    return replace(job, resume=os.path.abspath(os.path.expanduser(resume)))


def _find_place(plan: Plan, job: Job, recorded_run: Path, resume: str, is_local: bool) -> str:
    """Return the name or folder by which the ranks find a recorded run. Raises: PlanError."""
    if is_local and any(fetched(recorded_run)):
        return str((recorded_run / FETCHED).absolute())
    if not has_saved(recorded_run) and (is_local or not may_have_saved(recorded_run, job)):
        if job.checkpoint_every:
            raise _refusal(resume, f"{plan.run} ended before a checkpoint was complete")
        problem_text = "The run saved no checkpoint. Start it with --checkpoint-every."
        raise _refusal(resume, problem_text)
    return str(local_run(recorded_run).absolute()) if is_local else plan.run


def _check_left(job: Job, recorded_job: Job, recorded_run: Path) -> None:
    """Raises: PlanError, where the newest known checkpoint is already at the last step of the
    job."""
    total_steps = job.steps
    if not total_steps:  # which takes the length of an epoch
        recorded_total = summarized(recorded_run).get("steps")
        if recorded_job.steps or not isinstance(recorded_total, int):
            return
        total_steps = recorded_total // (recorded_job.epochs or 1) * (job.epochs or 1)
    if total_steps and saved_step(recorded_run) >= total_steps:
        problem_text = (
            f"Already complete ({total_steps} steps). Raise --epochs or --steps to continue."
        )
        raise _refusal(job.resume, problem_text)


def _is_in_reach(recorded_run: Path, is_local: bool) -> bool:
    """Return True if the checkpoints of a recorded run, if any, are where the new one runs."""
    return is_local == is_folder(recorded_run / NODE) or (is_local and any(fetched(recorded_run)))


def _check_place(plan: Plan, recorded_run: Path, resume: str, is_local: bool) -> None:
    """Raises: PlanError, where the checkpoints of a recorded run are elsewhere than the new one
    runs."""
    if not _is_in_reach(recorded_run, is_local):
        checkpoint_place = "on the hosts of its hosts file: leave out --local"
        if not is_local:
            checkpoint_place = f"on this machine: add --local {plan.world_size}"
        raise _refusal(resume, f"the checkpoints of {plan.run} are {checkpoint_place}")


def find(resume: str, runs_dir: Path, is_local: bool) -> Path | None:
    """Return the directory of a recorded run, by its path, its name, the beginning of it, or
    `last`, the newest that has a checkpoint where this one is to run (`is_local`: on this machine);
    None where this machine has none.

    Raises: PlanError, where several begin so, or none is the last.
    """
    if resume == LAST:
        return _newest(runs_dir, is_local)
    if not _is_path(resume):
        return naming.find(resume, runs_dir)
    folder = Path(resume).expanduser()
    return folder if (folder / PLAN).is_file() else None


def _newest(runs_dir: Path, is_local: bool) -> Path:
    """Return the newest run with a known checkpoint, else the newest that may have one. Raises:
    PlanError."""
    possible_run = None
    for recorded_run in reversed(layout.recorded(runs_dir)):
        if not _is_in_reach(recorded_run, is_local):
            continue
        try:
            _, job = _load(recorded_run, LAST)
        except PlanError:  # a program of one's own, or no plan at all
            continue
        if has_saved(recorded_run):
            return recorded_run
        if not is_local and may_have_saved(recorded_run, job):
            possible_run = possible_run or recorded_run
    if possible_run:
        return possible_run
    run_place = "on this machine" if is_local else "on hosts"
    problem_text = f"no run {run_place} that is recorded in {runs_dir} saved a checkpoint. "
    raise _refusal(LAST, f"{problem_text}Start one with --checkpoint-every")


def _refusal(resume: str, problem: str) -> PlanError:
    return PlanError(Mistake("--resume", resume, problem))


def _load(recorded_run: Path, resume: str) -> tuple[Plan, Job]:
    """Raises: PlanError, where there is no plan of a job."""
    try:
        plan = load_plan(recorded_run)
    except RunFolderError as error:
        raise _refusal("", str(error)) from error
    if plan.job:
        return plan, plan.job
    problem_text = f"{plan.run} ran a program of yours, whose checkpoints rankboard does not know"
    raise _refusal(resume, problem_text)


def _is_path(resume: str) -> bool:
    return "/" in resume or resume.startswith((".", "~"))


def _check_same(job: Job, recorded_job: Job, run_name: str) -> None:
    """Raises: PlanError, where the job trains another model, or on other images."""
    # of the same form are images that have only moved
    has_same_data = form_of("datasets", job.dataset) == form_of("datasets", recorded_job.dataset)
    differing_settings = {
        "model": "" if job.model == recorded_job.model else recorded_job.model,
        "dataset": "" if has_same_data else recorded_job.dataset,
    }
    for setting_name, recorded_value in differing_settings.items():
        if recorded_value:
            problem_text = f"{run_name}, which --resume goes on from, has {recorded_value}"
            hint = f"leave --{setting_name} out, or --resume"
            raise PlanError(
                Mistake(f"--{setting_name}", getattr(job, setting_name), problem_text, hint)
            )
