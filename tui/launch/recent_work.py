"""The jobs and programs of recorded runs, for the launch form."""

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

MOST = 30
"""How many are listed."""


@dataclass(frozen=True)
class Recent:
    """A job or a program, and the newest run of it."""

    work: Job | Script
    run: Entry


def recent(runs_dir: Path) -> list[Recent]:
    """The jobs and programs of the recorded runs, the newest first, each once. A job starts anew:
    it resumes nothing. Runs of studies, and jobs that this version does not know, are left out."""
    found: dict[Job | Script, Entry] = {}
    for entry in reversed(index.entries(runs_dir)):
        work = None if entry.study else _work(entry)
        if work and work not in found:
            found[work] = entry
            if len(found) == MOST:
                break
    return [Recent(work, entry) for work, entry in found.items()]


def _work(entry: Entry) -> Job | Script | None:
    if entry.job is not None:
        return _job(entry)
    with suppress(ValueError):  # a line that was too long for the list
        words = shlex.split(entry.script)
        if words:
            return Script(tuple(words))
    return None


def _job(entry: Entry) -> Job | None:
    with suppress(JobError, UnknownName, TypeError, ValueError):
        return replace(Job.of({**DEFAULTS, **(entry.job or {})}), resume="")
    return None
