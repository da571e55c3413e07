"""What a job needs of its hosts. The agent and the errand `check` look for it and report what is
there in the facts. Pure."""

from __future__ import annotations

from typing import Any

from remote.plan.plan import Script
from training import registry
from training.job import Job


def of(work: Job | Script) -> dict[str, Any]:
    """What `training.agent.host.needs.look` is asked. A relative path is uploaded first, so there
    is nothing to look for yet."""
    if not isinstance(work, Job):
        return {}
    wanted: dict[str, Any] = {"resume": work.resume} if _is_findable(work.resume) else {}
    path = path_of(work)
    if path and path[0] in "/~":
        wanted["path"] = path
    files = registry.declared("datasets", work.dataset, "FILES")
    if files and work.data_dir[:1] in ("/", "~"):
        archive = registry.declared("datasets", work.dataset, "ARCHIVE", "")
        wanted |= {"data": work.data_dir, "files": files, "archive": archive}
    return wanted


def path_of(job: Job) -> str:
    """The path in the name of the job's data set, "" where it has none."""
    return "".join(registry.split("datasets", job.dataset)[1])


def _is_findable(resume: str) -> bool:
    """Whether it is a run's name or a path that means the same wherever it is looked for."""
    return bool(resume) and ("/" not in resume or resume[0] in "/~")
