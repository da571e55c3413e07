"""What a run needs of its hosts. The agent and the errand `check` look for it and report what is
there in the facts. Pure."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from remote.cluster.hosts import Host
from remote.plan import placeholders
from remote.plan.main_program import find_main_program
from remote.plan.plan import Plan
from remote.plan.python_line import MODULE
from training import registry
from training.job import Job

SECONDS = 3.0
"""How long a host reads the files of a data set, and tries its sources."""
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
"""Variables that name the proxies of a program, in lower or upper case."""


def needs_of_host(plan: Plan, host_index: int) -> dict[str, Any]:
    """Return what host number `host_index` is to look for, see `training.agent.host.needs.look`."""
    work = plan.work
    host = plan.hosts[host_index]
    if isinstance(work, Job):
        needed = _with_proxies(needs_of_job(work), host)
        # The answer itself must come within the timeout.
        needed["seconds"] = min(SECONDS, host.timeout / 4)
        # Without checks nobody reads the answers, and these take seconds.
        if not plan.policy.doctor:
            needed |= {"sums": {}, "sources": ()}
        return needed
    first_slot = plan.first_slot(host_index)
    working_folder = "" if plan.project else host.cwd and plan.rank_cwd(first_slot)
    program = find_main_program(work.words)
    program_names = names_on_host(plan, host_index, program.name)
    if program.kind == MODULE and "PYTHONPATH" in (*dict(host.env), *host.env_from):
        program_names = [""]  # the agent has another path
    program_folder = working_folder and program.folder_from(working_folder)
    script_needs: dict[str, Any] = {"cwd": program_folder, program.kind: program_names[0]}
    if len(program_names) > 1:
        script_needs["others"] = program_names[1:]
    if host_index == 0 and plan.fixed_place.ports:
        script_needs["ports"] = [port.number for port in plan.fixed_place.ports]
    return {"program": script_needs}


def names_on_host(plan: Plan, host_index: int, name: str) -> list[str]:
    """Return the names that the name of a program means for the ranks of a host."""
    if not placeholders.has_any(name):
        return [name]
    slot = plan.first_slot(host_index)
    names: dict[str, None] = {}
    for local_rank in range(plan.hosts[host_index].slots):
        rank_slot = structs.replace(slot, rank=slot.rank + local_rank, local_rank=local_rank)
        names[placeholders.fill(name, plan.place_values(rank_slot))] = None
    return list(names)


def needs_of_job(job: Job) -> dict[str, Any]:
    """Return what a job needs. A relative path is uploaded first, so there is nothing to look for
    yet."""
    needed: dict[str, Any] = {}
    if _is_findable(job.resume):
        needed["resume"] = job.resume
    data_path = path_of(job)
    if data_path and data_path[0] in "/~":
        needed["path"] = data_path
    files = registry.read_constant("datasets", job.dataset, "FILES")
    if files and job.data_dir[:1] in ("/", "~"):
        archive_members = registry.read_constant("datasets", job.dataset, "ARCHIVE", {})
        needed |= {
            "data": job.data_dir,
            "files": tuple(files),
            "archive": archive_members,
            "sums": files if job.verify_data else {},
            "sources": registry.read_constant("datasets", job.dataset, "SOURCES", ()),
        }
    return needed


def _with_proxies(needed: dict[str, Any], host: Host) -> dict[str, Any]:
    """Add the proxies through which the ranks of a host download.

    What is needed stands in a command line on the host, which may show no password. If a proxy
    needs one, or its address is not known here, no source is tried.
    """
    if not needed.get("sources"):
        return dict(needed)
    proxies = {
        variable_name: variable_value
        for variable_name, variable_value in host.env
        if variable_name.lower() in PROXIES
    }
    is_secret = any("@" in variable_value for variable_value in proxies.values())
    is_unknown = any(variable_name.lower() in PROXIES for variable_name in host.env_from)
    if is_secret or is_unknown:
        return needed | {"sources": ()}
    return needed | {"proxies": proxies}


def path_of(job: Job) -> str:
    """Return the path in the name of the job's data set; "" if it has none."""
    return "".join(registry.split_name("datasets", job.dataset)[1])


def _is_findable(resume: str) -> bool:
    """Return True for a run's name, and for a path that means the same wherever it is looked
    for."""
    return bool(resume) and ("/" not in resume or resume[0] in "/~")
