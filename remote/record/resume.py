"""Resumes an earlier run: which one `--resume` means, with which job, and where its
checkpoints lie.

It looks at what is recorded on this machine only. A run that is not may still have checkpoints on
the hosts: the ranks look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from remote.plan.plan import Plan, PlanError
from remote.record import find as naming
from remote.record import layout
from remote.record.checkpoints import has_saved, may_have_saved, saved_step
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.layout import FETCHED, NODE, PLAN, fetched, local_run
from remote.record.read import has_begun, load_plan, summarized
from remote.sanitise import one_line
from training.agent.layout import LAST
from training.job import Job
from training.mistake import Mistake
from training.registry import did_you_mean, form_of, split_name


def job_of(given: Mapping[str, Any], runs_dir: Path, local: bool) -> Job:
    """Return the job of flags (None where one is left out): where they go on from a recorded run,
    what they leave out is that run's. `local`: the hosts are this machine. Of `last`, the job has
    the name of the run that it means.

    Raises: JobError, UnknownName, PlanError.
    """
    recorded = find(given["resume"], runs_dir, local) if given.get("resume") else None
    if recorded is None:
        return Job.of(given)
    said = {name: value for name, value in given.items() if value is not None}
    if given["resume"] == LAST:
        said["resume"] = recorded.name
    plan = _plan(recorded)
    _check_place(plan, recorded, given["resume"], local)
    old = asdict(_job(plan, given["resume"]))
    if "steps" in said or "epochs" in said:
        old |= {"steps": None, "epochs": None}
    if said.get("sync", old["sync"]) != old["sync"]:
        old["sync_option"] = ()
    return Job.of(old | said)


def located(job: Job, runs_dir: Path, local: bool, *, uploads: bool, ranks: int = 0) -> Job:
    """Return the job with `resume` as the ranks understand it: the run's name, or a folder on their
    hosts.

    `local`: the hosts are this machine; `uploads`: folders go to the hosts; `ranks`: their number.
    Raises: PlanError, where there is no such run, no checkpoint of it, or nothing left to train, as
    far as this machine can know.
    """
    if not job.resume:
        return job
    recorded = find(job.resume, runs_dir, local)
    if recorded:
        located = replace(job, resume=_named(job, recorded, local, uploads))
        _check_left(job, recorded, ranks)
        return located
    if (
        not local and job.resume != LAST
    ):  # a path on the hosts, or a run that another machine launched
        return job
    if not _is_path(job.resume):
        raise _refusal(job.resume, _absent(job.resume, runs_dir))
    return replace(job, resume=os.path.abspath(os.path.expanduser(job.resume)))


def _named(job: Job, recorded: Path, local: bool, uploads: bool) -> str:
    """Return the name or folder by which the ranks find a recorded run."""
    plan = _plan(recorded)
    old = _job(plan, job.resume)
    _same(job, old, plan.run)
    if job.dataset != old.dataset and _was_uploaded(old, plan) and not local and not uploads:
        wanted = " ".join(
            f"--upload {one_line(os.path.relpath(upload.source))}" for upload in plan.uploads
        )
        what = f"{plan.run} had folders on its hosts: add {wanted}"
        raise _refusal(job.resume, what)
    _check_place(plan, recorded, job.resume, local)
    if local and any(fetched(recorded)):
        return str((recorded / FETCHED).absolute())
    if not has_saved(recorded) and (local or not may_have_saved(recorded, old)):
        raise _refusal(job.resume, _unsaved(plan.run, old, recorded, local))
    return str(local_run(recorded).absolute()) if local else plan.run


def _check_left(job: Job, recorded: Path, ranks: int) -> None:
    """Raises: PlanError, where the newest known checkpoint is already at the last step of the
    job."""
    plan = _plan(recorded)
    summary = summarized(recorded)
    old = _job(plan, job.resume)
    total = summary.get("steps")
    if job.differs(old) or ranks != plan.world_size:
        return
    if not job.steps:  # which takes the length of an epoch
        if old.steps or not isinstance(total, int):
            return
        total = total // (old.epochs or 1) * (job.epochs or 1)
    total = job.steps or total
    if total and saved_step(recorded) >= total:
        what = f"Already complete ({total} steps). Raise --epochs or --steps to continue."
        raise _refusal(job.resume, what)


def _was_uploaded(job: Job, plan: Plan) -> bool:
    """Return True if the images of a run were uploaded: only then is their path relative."""
    _, path = split_name("datasets", job.dataset)
    return bool(plan.uploads and path) and not path[0].startswith(("/", "~"))


def _check_place(plan: Plan, recorded: Path, resume: str, local: bool) -> None:
    """Raises: PlanError, where the checkpoints of a recorded run are elsewhere than the new one
    runs."""
    own = is_folder(recorded / NODE)
    if own != local and not (local and any(fetched(recorded))):
        where = (
            f"on this machine: add --local {plan.world_size}"
            if own
            else "on the hosts of its hosts file: leave out --local"
        )
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


def _of_this_place(runs_dir: Path, local: bool) -> Iterator[tuple[Path, Job]]:
    """Yield the recorded runs whose checkpoints, if any, are where the new run is, with their jobs,
    the newest first."""
    for recorded in reversed(layout.recorded(runs_dir)):
        if local == is_folder(recorded / NODE) or (local and any(fetched(recorded))):
            with suppress(PlanError):  # a program of one's own, or no plan at all
                yield recorded, _job(_plan(recorded), LAST)


def _newest(runs_dir: Path, local: bool) -> Path:
    """Return the newest run with a known checkpoint, else the newest that may have one. Raises:
    PlanError."""
    possible = None
    for recorded, job in _of_this_place(runs_dir, local):
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


def _plan(recorded: Path) -> Plan:
    try:
        return load_plan(recorded)
    except RunFolderError as error:
        raise _refusal("", str(error)) from error


def _is_path(resume: str) -> bool:
    return "/" in resume or resume.startswith((".", "~"))


def _job(plan: Plan, resume: str) -> Job:
    if plan.job:
        return plan.job
    what = f"{plan.run} ran a program of yours, whose checkpoints rankboard does not know"
    raise _refusal(resume, what)


def _same(job: Job, old: Job, run: str) -> None:
    for name in ("model", "dataset"):
        new = getattr(job, name)
        was = getattr(old, name)
        moved = name == "dataset" and form_of("datasets", new) == form_of(
            "datasets", was
        )  # the same images, elsewhere
        if new != was and not moved:
            what = f"{run}, which --resume goes on from, has {was}"
            hint = f"leave --{name} out, or --resume"
            raise PlanError(Mistake(f"--{name}", str(new), what, hint))


def _absent(run: str, runs_dir: Path) -> str:
    known = [folder.name for folder in reversed(layout.recorded(runs_dir))]
    there = f"the newest there are {', '.join(known[:3])}" if known else "there is none at all"
    return f"no run of this name in {runs_dir}{did_you_mean(run, known) or ''} ({there})"


def _unsaved(run: str, job: Job, recorded: Path, local: bool) -> str:
    """Why a run has no checkpoint, and what to do."""
    if job.checkpoint_every and has_begun(recorded):
        before = f"; it went on from {one_line(job.resume)} itself" if job.resume else ""
        return f"{run} ended before a checkpoint was complete{before}"
    others = islice(
        (one.name for one, _ in _of_this_place(recorded.parent, local) if has_saved(one)), 3
    )
    another = f", or resume another run: {names}" if (names := ", ".join(others)) else ""
    return f"The run saved no checkpoint. Start it with --checkpoint-every{another}."
