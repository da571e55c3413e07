"""The jobs of recorded runs, for the launch form."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from remote.record import index
from remote.record.entry import DEFAULTS, Entry
from training.job import Job, JobError
from training.registry import UnknownName

MOST = 30
"""How many jobs are listed."""


@dataclass(frozen=True)
class Recent:
    """A job, and the newest run of it."""

    job: Job
    run: Entry


def recent(runs_dir: Path) -> list[Recent]:
    """The jobs of the recorded runs, the newest first, each once. A job starts anew: it resumes
    nothing. Runs of studies, and jobs that this version does not know, are left out."""
    found: dict[Job, Entry] = {}
    for entry in reversed(index.entries(runs_dir)):
        job = None if entry.study or entry.job is None else _job(entry)
        if job and job not in found:
            found[job] = entry
            if len(found) == MOST:
                break
    return [Recent(job, entry) for job, entry in found.items()]


def _job(entry: Entry) -> Job | None:
    with suppress(JobError, UnknownName, TypeError, ValueError):
        return replace(Job.of({**DEFAULTS, **(entry.job or {})}), resume="")
    return None
