"""What a run needs of its hosts. The agent and the errand `check` look for it and report what is
there in the facts. Pure."""

from __future__ import annotations

from typing import Any

from remote.plan.plan import NO_PYTHON, PYTHONS, Plan, Script
from remote.plan.python_line import MODULE, python_line
from training import registry
from training.job import Job


def on(plan: Plan, index: int) -> dict[str, Any]:
    """What host number `index` is to look for, see `training.agent.host.needs.look`."""
    work = plan.work
    if isinstance(work, Job):
        return of(work)
    host = plan.hosts[index]
    cwd = "" if plan.project else host.cwd
    kind, name = program(work)
    if kind == MODULE and "PYTHONPATH" in (*dict(host.env), *host.env_from):
        name = ""  # the agent has another path
    return {"program": {"cwd": cwd, kind: name}}


def program(script: Script) -> tuple[str, str]:
    """The kind of a program, `file` of Python, `module` or `command`, and its name; the name is ""
    where it cannot be known."""
    line = python_line(script.words)
    if line and line.interpreter in ("", *PYTHONS):
        return line.kind, line.name
    first, second, *_ = (*script.words, "")
    return "command", second if first == NO_PYTHON else first


def of(job: Job) -> dict[str, Any]:
    """What a job needs. A relative path is uploaded first, so there is nothing to look for yet."""
    wanted: dict[str, Any] = {"resume": job.resume} if _is_findable(job.resume) else {}
    path = path_of(job)
    if path and path[0] in "/~":
        wanted["path"] = path
    files = registry.declared("datasets", job.dataset, "FILES")
    if files and job.data_dir[:1] in ("/", "~"):
        archive = registry.declared("datasets", job.dataset, "ARCHIVE", "")
        wanted |= {"data": job.data_dir, "files": files, "archive": archive}
    return wanted


def path_of(job: Job) -> str:
    """The path in the name of the job's data set, "" where it has none."""
    return "".join(registry.split("datasets", job.dataset)[1])


def _is_findable(resume: str) -> bool:
    """Whether it is a run's name or a path that means the same wherever it is looked for."""
    return bool(resume) and ("/" not in resume or resume[0] in "/~")
