"""Going on from an earlier run: which one `--resume` means, with which job, and where its checkpoints lie.

It looks at what is recorded on this machine only. A run that is not may still have checkpoints on the hosts: the ranks look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from remote import recorder
from remote.plan import Plan, PlanError
from remote.recorder import PLAN, RunFolderError, load_plan
from training.agent.inventory import LAST
from training.job import Job
from training.registry import did_you_mean, form_of, split

NODE = "node"
"""The folder in a run's directory that takes the place of a host's workdir where this machine is the host."""
FETCHED = "hosts"
"""The folder in a run's directory in which each host has one of its own with what was fetched from it."""


def job_of(given: Mapping[str, Any], runs_dir: Path, local: bool) -> Job:
    """The job of flags (None where one is left out): where they go on from a recorded run, what they leave out is that run's.
    `local`: this machine is to be the host.

    Raises: JobError, UnknownName, PlanError.
    """
    recorded = find(given["resume"], runs_dir) if given.get("resume") else None
    if recorded is None:
        return Job.of(given)
    said = {name: value for name, value in given.items() if value is not None}
    plan = _plan(recorded)
    _check_place(plan, recorded, given["resume"], local)
    old = asdict(_job(plan, given["resume"]))
    if "steps" in said or "epochs" in said:
        old |= {"steps": 0, "epochs": 0}
    if said.get("sync", old["sync"]) != old["sync"]:
        old["sync_option"] = ()
    return Job.of(old | said)


def located(job: Job, runs_dir: Path, local: bool, *, uploads: bool) -> Job:
    """The job with `resume` as the ranks understand it: the run's name, or a folder on their hosts.

    `local`: this machine is the host; `uploads`: folders go to the hosts. Raises: PlanError, where there is no such run or no
    checkpoint of it, as far as this machine can know.
    """
    if not job.resume:
        return job
    if recorded := find(job.resume, runs_dir):
        return replace(job, resume=_named(job, recorded, local, uploads))
    if not local and job.resume != LAST:  # a path on the hosts, or a run that another machine launched
        return job
    if not _is_path(job.resume):
        raise PlanError(f"--resume {job.resume}: {_absent(job.resume, runs_dir)}")
    return replace(job, resume=os.path.abspath(os.path.expanduser(job.resume)))


def _named(job: Job, recorded: Path, local: bool, uploads: bool) -> str:
    """How the ranks know a recorded run."""
    plan = _plan(recorded)
    old = _job(plan, job.resume)
    _same(job, old, plan.run)
    if job.dataset != old.dataset and _was_uploaded(old, plan) and not local and not uploads:
        wanted = " ".join(f"--upload {os.path.relpath(upload.source)}" for upload in plan.uploads)
        raise PlanError(f"--resume {job.resume}: {plan.run} had folders on its hosts: add {wanted}")
    _check_place(plan, recorded, job.resume, local)
    if local and any(_fetched(recorded)):
        return str((recorded / FETCHED).absolute())
    if not local:
        return plan.run
    folder = recorded / NODE / "runs" / plan.run
    if not any(folder.glob("*/checkpoints/step-*/manifest.json")):
        raise PlanError(f"--resume {job.resume}: {_unsaved(plan, folder)}")
    return str(folder.absolute())


def _was_uploaded(job: Job, plan: Plan) -> bool:
    """Whether the images of a run lay where its ranks worked: only then is their path a relative one."""
    _, path = split("datasets", job.dataset)
    return bool(plan.uploads and path) and not path[0].startswith(("/", "~"))


def _check_place(plan: Plan, recorded: Path, resume: str, local: bool) -> None:
    """Raises: PlanError, where the checkpoints of a recorded run are not where this one is to run."""
    own = (recorded / NODE).is_dir()
    if own != local and not (local and any(_fetched(recorded))):
        where = (
            f"on this machine: add --local {plan.world_size}" if own else "on the hosts of its hosts file: leave out --local"
        )
        raise PlanError(f"--resume {resume}: the checkpoints of {plan.run} are {where}")


def _fetched(recorded: Path) -> Iterator[Path]:
    return (recorded / FETCHED).glob("*/checkpoints/step-*/manifest.json")


def find(resume: str, runs_dir: Path) -> Path | None:
    """The directory of a recorded run, by its path, its name, the beginning of it, or `last`; None where this machine has none.

    Raises: PlanError, where several begin so.
    """
    if not _is_path(resume):
        return recorder.find(resume, runs_dir)
    folder = Path(resume).expanduser()
    return folder if (folder / PLAN).is_file() else None


def _plan(recorded: Path) -> Plan:
    try:
        return load_plan(recorded)
    except RunFolderError as error:
        raise PlanError(f"--resume: {error}") from error


def _is_path(resume: str) -> bool:
    return "/" in resume or resume.startswith((".", "~"))


def _job(plan: Plan, resume: str) -> Job:
    if isinstance(plan.work, Job):
        return plan.work
    raise PlanError(f"--resume {resume}: {plan.run} ran a program of yours, whose checkpoints rankboard does not know")


def _same(job: Job, old: Job, run: str) -> None:
    for name in ("model", "dataset"):
        new, was = getattr(job, name), getattr(old, name)
        moved = name == "dataset" and form_of("datasets", new) == form_of("datasets", was)  # the same images, elsewhere
        if new != was and not moved:
            raise PlanError(f"--{name} {new}: {run}, which --resume goes on from, has {was}: leave --{name} out, or --resume")


def _absent(run: str, runs_dir: Path) -> str:
    known = sorted((path.parent.name for path in runs_dir.glob(f"*/{PLAN}")), reverse=True)
    there = f"the newest there are {', '.join(known[:3])}" if known else "there is none at all"
    return f"no run of this name in {runs_dir}{did_you_mean(run, known) or ''} ({there})"


def _unsaved(plan: Plan, folder: Path) -> str:
    work = plan.work
    if isinstance(work, Job) and not work.checkpoint_every:
        return f"{plan.run} saved no checkpoints: it was started without --checkpoint-every"
    before = f"; it went on from {work.resume} itself" if isinstance(work, Job) and work.resume else ""
    return f"{plan.run} ended before a checkpoint was complete, there is none in {folder}{before}"
