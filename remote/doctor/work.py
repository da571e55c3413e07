"""Checks whether the hosts have what the work needs: its data, its checkpoint, a CPU for its
precision, or the user's script."""

from __future__ import annotations

from collections.abc import Sequence

from remote.doctor.host_facts import FAILED, OK, WARNING, CheckedHost, HostFinding
from remote.format import count, listed, size
from remote.plan.needs import kind_of_program, path_of
from remote.plan.plan import Plan, Script
from training import registry
from training.job import Job

MB = 10**6
DATA = (
    "data_folder",
    "data_missing",
    "data_problem",
    "data_free",
    "data_damaged",
    "data_unread",
    "data_unreachable",
)
"""What a host reports of the data, see `Hello`."""
SLOW = "--precision bf16 is many times slower than fp32"
INSTEAD = "leave it out; --sync ddp --sync-option compression=bf16 halves the traffic alone"


def checks_for(plan: Plan) -> set[str]:
    """Return which of the checks below, and of torchvision, the plan's work needs."""
    job = plan.job
    if not job:
        return {"program"}
    names = {"job"}
    if job.model.startswith("torchvision/"):
        names.add("torchvision")
    if path_of(job) or _declared_files(job) is not None:
        names.add("data")
    if job.precision == "bf16":
        names.add("precision")
    return names


def _declared_files(job: Job) -> object:
    return registry.read_constant("datasets", job.dataset, "FILES")


def check_data(checked: CheckedHost) -> HostFinding | str:
    """Check for the files of the data set: there, to be downloaded, or missing."""
    hello = checked.hello
    job = _job(checked)
    if not path_of(job) and not _declared_files(job):
        return "not needed"
    if not hello.data_folder:
        return "uploaded" if checked.plan.uploads else "not known"
    return judge_data(job, **{name: getattr(hello, name) for name in DATA})


def judge_data(
    job: Job,
    data_folder: str = "",
    data_missing: Sequence[str] = (),
    data_problem: str = "",
    data_free: int = 0,
    data_damaged: Sequence[str] = (),
    data_unread: Sequence[str] = (),
    data_unreachable: Sequence[tuple[str, str]] = (),
) -> HostFinding:
    """Say what it means for a job that this was found of its data, see `Hello`."""
    path = path_of(job)
    if path:
        name = job.dataset.removesuffix(path)
        advice = (
            f"write {name}PATH with a path that can be read there; --upload sends a folder of "
            "this machine to the hosts"
        )
        if data_problem:
            return HostFinding(FAILED, data_problem, advice)
        return HostFinding(OK, "there")
    if data_damaged:
        return _damaged(data_damaged)
    if not data_missing:
        if data_problem:
            return HostFinding(FAILED, data_problem, "let this user read it, or use --data-dir")
        return HostFinding(OK, "there, unchecked" if data_unread else "there")
    absent = f"{job.dataset} is not in {data_folder}, and"
    if data_problem:
        problem = f"{absent} cannot be downloaded into it: {data_problem}"
        return HostFinding(FAILED, problem, "put its files there, or use --data-dir")
    download = registry.read_constant("datasets", job.dataset, "DOWNLOAD_MB", 0)
    room = registry.read_constant("datasets", job.dataset, "ROOM_MB", download)
    if data_free < room * MB:
        free = f"only {size(data_free)} are free there"
        problem = f"{absent} its {size(room * MB)} do not fit: {free}"
        return HostFinding(FAILED, problem, "make room there, or use --data-dir")
    if data_unreachable:
        return _unreachable(absent, data_unreachable)
    return HostFinding(OK, f"fetch {size(download * MB)}", is_download=True)


def _damaged(files: Sequence[str]) -> HostFinding:
    others = f" and {count(len(files) - 1, 'more file')}" if files[1:] else ""
    verb, them = ("do", "them") if others else ("does", "it")
    problem = f"{files[0]}{others} {verb} not have the published checksum"
    return HostFinding(FAILED, problem, f"replace {them}, or accept {them} with --no-verify-data")


def _unreachable(absent: str, servers: Sequence[tuple[str, str]]) -> HostFinding:
    """Say that the data set cannot be downloaded. A server that did not answer in a few seconds may
    only be slow, so that is no reason not to start."""
    reasons = [f"{server}: {reason or 'it does not answer'}" for server, reason in servers]
    problem = f"{absent} cannot be downloaded there ({'; '.join(reasons)})"
    advice = (
        "copy its files there, or name a folder that has them with --data-dir; --upload sends a "
        "folder of this machine to the hosts"
    )
    is_certain = all(reason for _, reason in servers)
    return HostFinding(FAILED if is_certain else WARNING, problem, advice)


def check_job(checked: CheckedHost) -> HostFinding | str:
    """Check for the checkpoint that the run resumes from: one host that has it is enough."""
    job = _job(checked)
    hello = checked.hello
    if not job.resume or hello.resume != job.resume:
        side = job.image_side
        return f"{side}x{side}" if side else "ok"
    if hello.resume_step:
        return f"step {hello.resume_step}"
    if any(other.hello.resume_step for other in checked.reached):
        return "none here"
    known: set[str] = set()
    for other in checked.reached:
        known.update(other.hello.resume_known)
    there = "no run there has saved one"
    if known:
        newest = sorted(known, reverse=True)[:3]
        there = f"the newest there that have some are {listed(newest)}"
    return HostFinding(
        FAILED,
        f"--resume {job.resume}: no complete checkpoint of it is there; {there}",
        "give the hosts that it ran on, a run that was started with --checkpoint-every, or a path "
        "on the hosts",
    )


def check_precision(checked: CheckedHost) -> HostFinding | str:
    """Check whether the CPU has instructions for bf16. It does not matter if every rank has a
    GPU."""
    from training.agent.local_api import lacks_bf16  # with all the host commands

    flags = checked.hello.flags
    if checked.has_gpu_per_rank:
        return "bf16 on GPUs"
    if not lacks_bf16(flags):
        return "bf16" if flags else "not known"
    return HostFinding(WARNING, f"the CPU has no bf16 instructions: {SLOW} there", INSTEAD)


def _job(checked: CheckedHost) -> Job:
    assert checked.plan.job, "only jobs are checked"
    return checked.plan.job


def check_program(checked: CheckedHost) -> HostFinding | str:
    """Check that the user's script is there, and can be started."""
    from training.agent.local_api import programs  # with all the host commands

    plan = checked.plan
    hello = checked.hello
    assert isinstance(plan.work, Script), "only scripts are checked"
    _, name = kind_of_program(plan.work)
    cwd = plan.cwd(checked.index)
    lack = hello.program_lacks
    if plan.is_local:
        elsewhere = "see --cwd, which names another folder"
    else:
        elsewhere = "put this folder there with --upload ., or name one that is there with --cwd"
    if lack in (programs.FILE, programs.COMMAND) and len(name.split()) > 1:
        advice = f"leave out the quotes: -- {name}"
        return HostFinding(FAILED, f"there is no program '{name}'", advice)
    findings = {
        programs.FOLDER: (f"there is no folder {cwd}", elsewhere),
        programs.NO_FILE: (
            f"{name} is a folder",
            f"name the program in it, such as -- {name.rstrip('/')}/train.py",
        ),
        programs.FILE: (f"there is no {name} in {cwd}", elsewhere),
        programs.MODULE: (
            f"its Python finds no module {name}, nor is it in {cwd}",
            f"install it there ({hello.executable} -m pip install …), or {elsewhere}",
        ),
        programs.COMMAND: (
            f"there is no command {name}",
            f"write -- ./{name} for a file of that name, or give its whole path",
        ),
        programs.EXECUTE: (
            f"{name} is not executable",
            f"chmod +x {name} there, or write -- bash {name}",
        ),
        programs.READ: (f"{hello.user} may not read {name} in {cwd}", f"chmod +r {name} there"),
    }
    if lack in findings:
        return HostFinding(FAILED, *findings[lack])
    return "uploaded" if plan.project else name or "ok"
