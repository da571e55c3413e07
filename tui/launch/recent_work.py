"""The jobs and scripts of recorded runs, for the launch form."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from remote.plan.plan import Script
from remote.record import index
from remote.record.entry import DEFAULTS, Entry
from training.job import Job, JobError
from training.registry import UnknownName

MOST_LISTED = 30


@dataclass(frozen=True)
class RecentWork:
    """A job or a script, and the newest run of it."""

    work: Job | Script
    run: Entry


def list_recent_work(runs_dir: Path) -> list[RecentWork]:
    """Return the jobs and scripts of the recorded runs, the newest first, each once.

    A job starts anew: it resumes nothing. Runs of studies, and jobs that this version does not
    know, are left out.
    """
    newest_runs: dict[Job | Script, Entry] = {}
    for entry in reversed(index.entries(runs_dir)):
        work = None if entry.study else parse_work(entry)
        if work and work not in newest_runs:
            newest_runs[work] = entry
        if len(newest_runs) == MOST_LISTED:
            break
    return [RecentWork(work, run) for work, run in newest_runs.items()]


def parse_work(entry: Entry) -> Job | Script | None:
    """Return the job or the script of a recorded run; None if this version does not know it."""
    if entry.job is not None:
        with suppress(JobError, UnknownName, TypeError, ValueError):
            job = Job.of({**DEFAULTS, **entry.job})
            return replace(job, resume="")
        return None
    words: list[str] = []
    with suppress(ValueError):  # a command line that was too long for the list is cut off
        words = shlex.split(entry.script)
    return Script(tuple(words)) if words else None
