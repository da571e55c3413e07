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


def job_of(given: Mapping[str, Any], runs_dir: Path, local: bool) -> Job:
    """Return the job of flags (None where one is left out): where they go on from a recorded run,
    what they leave out is that run's. `local`: the hosts are this machine. Of `last`, the job has
    the name of the run that it means.

    Raises: JobError, UnknownName, PlanError.
    """
    resume = given.get("resume") or ""
    recorded = find(resume, runs_dir, local) if resume else None
    if recorded is None:
        return Job.of(given)
    settings = {name: value for name, value in given.items() if value is not None}
    if resume == LAST:
        settings["resume"] = recorded.name
    plan, job = _load(recorded, resume)
    _check_place(plan, recorded, resume, local)
    inherited = asdict(job)
    if "steps" in settings or "epochs" in settings:
        inherited |= {"steps": None, "epochs": None}
    if settings.get("sync", job.sync) != job.sync:
        inherited["sync_option"] = ()
    return Job.of(inherited | settings)


def located(job: Job, runs_dir: Path, local: bool, *, ranks: int = 0) -> Job:
    """Return the job with `resume` as the ranks understand it: the run's name, or a folder on their
    hosts.

    `local`: the hosts are this machine; `ranks`: their number. Raises: PlanError, where there is no
    such run, no checkpoint of it, or nothing left to train, as far as this machine can know.
    """
    resume = job.resume
    if not resume:
        return job
    recorded = find(resume, runs_dir, local)
    if recorded:
        plan, old = _load(recorded, resume)
        _check_same(job, old, plan.run)
        _check_place(plan, recorded, resume, local)
        place = _find_place(plan, old, recorded, resume, local)
        if ranks == plan.world_size and not job.differs(old):
            _check_left(job, old, recorded)
        return replace(job, resume=place)
    # a path on the hosts, or a run that another machine launched
    if not local and resume != LAST:
        return job
    if not _is_path(resume):
        known = [folder.name for folder in layout.recorded(runs_dir)]
        what = f"no run of this name in {runs_dir}{did_you_mean(resume, known) or ''}"
        raise _refusal(resume, what)
    return replace(job, resume=os.path.abspath(os.path.expanduser(resume)))


def _find_place(plan: Plan, job: Job, recorded: Path, resume: str, local: bool) -> str:
    """Return the name or folder by which the ranks find a recorded run. Raises: PlanError."""
    if local and any(fetched(recorded)):
        return str((recorded / FETCHED).absolute())
    if not has_saved(recorded) and (local or not may_have_saved(recorded, job)):
        if job.checkpoint_every:
            raise _refusal(resume, f"{plan.run} ended before a checkpoint was complete")
        what = "The run saved no checkpoint. Start it with --checkpoint-every."
        raise _refusal(resume, what)
    return str(local_run(recorded).absolute()) if local else plan.run


def _check_left(job: Job, old: Job, recorded: Path) -> None:
    """Raises: PlanError, where the newest known checkpoint is already at the last step of the
    job."""
    total = job.steps
    if not total:  # which takes the length of an epoch
        recorded_total = summarized(recorded).get("steps")
        if old.steps or not isinstance(recorded_total, int):
            return
        total = recorded_total // (old.epochs or 1) * (job.epochs or 1)
    if total and saved_step(recorded) >= total:
        what = f"Already complete ({total} steps). Raise --epochs or --steps to continue."
        raise _refusal(job.resume, what)


def _is_in_reach(recorded: Path, local: bool) -> bool:
    """Return True if the checkpoints of a recorded run, if any, are where the new one runs."""
    return local == is_folder(recorded / NODE) or (local and any(fetched(recorded)))


def _check_place(plan: Plan, recorded: Path, resume: str, local: bool) -> None:
    """Raises: PlanError, where the checkpoints of a recorded run are elsewhere than the new one
    runs."""
    if not _is_in_reach(recorded, local):
        where = "on the hosts of its hosts file: leave out --local"
        if not local:
            where = f"on this machine: add --local {plan.world_size}"
        raise _refusal(resume, f"the checkpoints of {plan.run} are {where}")


def find(resume: str, runs_dir: Path, local: bool) -> Path | None:
    """Return the directory of a recorded run, by its path, its name, the beginning of it, or
    `last`, the newest that has a checkpoint where this one is to run (`local`: on this machine);
    None where this machine has none.

    Raises: PlanError, where several begin so, or none is the last.
    """
    if resume == LAST:
        return _newest(runs_dir, local)
    if not _is_path(resume):
        return naming.find(resume, runs_dir)
    folder = Path(resume).expanduser()
    return folder if (folder / PLAN).is_file() else None


def _newest(runs_dir: Path, local: bool) -> Path:
    """Return the newest run with a known checkpoint, else the newest that may have one. Raises:
    PlanError."""
    possible = None
    for recorded in reversed(layout.recorded(runs_dir)):
        if not _is_in_reach(recorded, local):
            continue
        try:
            _, job = _load(recorded, LAST)
        except PlanError:  # a program of one's own, or no plan at all
            continue
        if has_saved(recorded):
            return recorded
        if not local and may_have_saved(recorded, job):
            possible = possible or recorded
    if possible:
        return possible
    where = "on this machine" if local else "on hosts"
    what = f"no run {where} that is recorded in {runs_dir} saved a checkpoint. "
    raise _refusal(LAST, f"{what}Start one with --checkpoint-every")


def _refusal(resume: str, problem: str) -> PlanError:
    return PlanError(Mistake("--resume", resume, problem))


def _load(recorded: Path, resume: str) -> tuple[Plan, Job]:
    """Raises: PlanError, where there is no plan of a job."""
    try:
        plan = load_plan(recorded)
    except RunFolderError as error:
        raise _refusal("", str(error)) from error
    if plan.job:
        return plan, plan.job
    what = f"{plan.run} ran a program of yours, whose checkpoints rankboard does not know"
    raise _refusal(resume, what)


def _is_path(resume: str) -> bool:
    return "/" in resume or resume.startswith((".", "~"))


def _check_same(job: Job, old: Job, run: str) -> None:
    """Raises: PlanError, where the job trains another model, or on other images."""
    # of the same form are images that have only moved
    has_same_data = form_of("datasets", job.dataset) == form_of("datasets", old.dataset)
    differing = {
        "model": "" if job.model == old.model else old.model,
        "dataset": "" if has_same_data else old.dataset,
    }
    for name, previous in differing.items():
        if previous:
            what = f"{run}, which --resume goes on from, has {previous}"
            hint = f"leave --{name} out, or --resume"
            raise PlanError(Mistake(f"--{name}", getattr(job, name), what, hint))
