"""Whether the hosts have what the job needs: its data, its checkpoint, a CPU for its precision."""

from __future__ import annotations

from collections.abc import Sequence

from remote.doctor.check import FAILED, OK, WARNING, Facts, Found
from remote.format import count, listed, size
from remote.plan.needs import path_of
from remote.plan.plan import Plan
from training import registry
from training.job import Job

MB = 10**6
FETCH = "fetch"
"""What it says first where a data set has to be downloaded."""
DATA = (
    "data_folder",
    "data_missing",
    "data_problem",
    "data_free",
    "data_damaged",
    "data_unread",
    "data_unreachable",
)
"""What a host says of the data, see `Hello`."""
SLOW = "--precision bf16 is many times slower than fp32"
INSTEAD = "leave it out; --sync ddp --sync-option compression=bf16 halves the traffic alone"


def checks(plan: Plan) -> tuple[str, ...]:
    """Which of the checks below the plan's work has a use for."""
    job = plan.job
    if not job:
        return ("program",)
    has_files = path_of(job) or registry.declared("datasets", job.dataset, "FILES") is not None
    return ("data",) * bool(has_files) + ("job",) + ("precision",) * (job.precision == "bf16")


def data(facts: Facts, index: int) -> Found:
    """The files of the data set: there, to be downloaded, or missing."""
    hello = facts.hello(index)
    job = _job(facts)
    if not path_of(job) and not registry.declared("datasets", job.dataset, "FILES"):
        return Found(OK, "not needed")
    if facts.plan.uploads and not hello.data_folder:
        return Found(OK, "uploaded")
    if not hello.data_folder:
        return Found(OK, "not known")
    return found(job, **{name: getattr(hello, name) for name in DATA})


def found(
    job: Job,
    data_folder: str = "",
    data_missing: Sequence[str] = (),
    data_problem: str = "",
    data_free: int = 0,
    data_damaged: Sequence[str] = (),
    data_unread: Sequence[str] = (),
    data_unreachable: Sequence[tuple[str, str]] = (),
) -> Found:
    """What it means for a job that this was found of its data, see `Hello`."""
    path = path_of(job)
    if path:
        name = job.dataset.removesuffix(path)
        advice = (
            f"write {name}PATH with a path that can be read there; --upload sends a folder of "
            "this machine to the hosts"
        )
        return Found(FAILED, data_problem, advice) if data_problem else Found(OK, "there")
    if data_damaged:
        what = f"{data_damaged[0]} does not have the published checksum"
        damaged = "it"
        if len(data_damaged) > 1:
            others = count(len(data_damaged) - 1, "more file")
            what = f"{data_damaged[0]} and {others} do not have the published checksum"
            damaged = "them"
        return Found(FAILED, what, f"replace {damaged}, or accept {damaged} with --no-verify-data")
    if not data_missing:
        if data_problem:
            return Found(FAILED, data_problem, "let this user read it, or use --data-dir")
        return Found(OK, "there, unchecked" if data_unread else "there")
    download = registry.declared("datasets", job.dataset, "DOWNLOAD_MB", 0)
    room = registry.declared("datasets", job.dataset, "ROOM_MB", download)
    if data_problem:
        what = (
            f"{job.dataset} is not in {data_folder}, and cannot be downloaded into it: "
            f"{data_problem}"
        )
        return Found(FAILED, what, "put its files there, or use --data-dir")
    if data_free < room * MB:
        what = (
            f"{job.dataset} is not in {data_folder}, and its {size(room * MB)} do not fit: only "
            f"{size(data_free)} are free there"
        )
        return Found(FAILED, what, "make room there, or use --data-dir")
    if data_unreachable:
        return _unreachable(job, data_folder, data_unreachable)
    return Found(OK, f"{FETCH} {size(download * MB)}")


def _unreachable(job: Job, folder: str, servers: Sequence[tuple[str, str]]) -> Found:
    """Say that the data set cannot be downloaded. A server that did not answer in a few seconds may
    only be slow, so that is no reason not to start."""
    reasons = [f"{server}: {why or 'it does not answer'}" for server, why in servers]
    what = (
        f"{job.dataset} is not in {folder}, and cannot be downloaded there ({'; '.join(reasons)})"
    )
    advice = (
        "copy its files there, or name a folder that has them with --data-dir; --upload sends a "
        "folder of this machine to the hosts"
    )
    is_certain = all(why for _, why in servers)
    return Found(FAILED if is_certain else WARNING, what, advice)


def job(facts: Facts, index: int) -> Found:
    """The model, and the checkpoint that the run resumes from: one host that has it is enough."""
    job = _job(facts)
    hello = facts.hello(index)
    if not job.resume or hello.resume != job.resume:
        return Found(OK, f"{job.image_side}x{job.image_side}" if job.image_side else "ok")
    if hello.resume_step:
        return Found(OK, f"step {hello.resume_step}")
    if any(facts.hello(other).resume_step for other in facts.reached):
        return Found(OK, "none here")
    known = sorted(
        {run for other in facts.reached for run in facts.hello(other).resume_known}, reverse=True
    )
    there = (
        f"the newest there that have some are {listed(known[:3])}"
        if known
        else "no run there has saved one"
    )
    return Found(
        FAILED,
        f"--resume {job.resume}: no complete checkpoint of it is there; {there}",
        "give the hosts that it ran on, a run that was started with --checkpoint-every, or a path "
        "on the hosts",
    )


def precision(facts: Facts, index: int) -> Found:
    """Whether the CPU has instructions for bf16. It does not matter where every rank has a GPU."""
    from training.agent.local_api import lacks_bf16  # with all the errands

    flags = facts.hello(index).flags
    if all(len(facts.hello(other).gpus) >= facts.host(other).slots for other in facts.reached):
        return Found(OK, "bf16 on GPUs")
    if not lacks_bf16(flags):
        return Found(OK, "bf16" if flags else "not known")
    return Found(WARNING, f"the CPU has no bf16 instructions: {SLOW} there", INSTEAD)


def _job(facts: Facts) -> Job:
    assert facts.plan.job, "only jobs are checked"
    return facts.plan.job
