"""Checks whether the hosts have what the work needs: its data, its checkpoint, a CPU for its
precision, or the user's script."""

from __future__ import annotations

from collections.abc import Sequence

from remote.doctor.host_facts import FAILED, OK, WARNING, CheckedHost, HostFinding
from remote.format import count, listed, size
from remote.plan.main_program import find_main_program
from remote.plan.needs import path_of
from remote.plan.plan import Plan
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
    check_names = {"job"}
    if job.model.startswith("torchvision/"):
        check_names.add("torchvision")
    if path_of(job) or _declared_files(job) is not None:
        check_names.add("data")
    if job.precision == "bf16":
        check_names.add("precision")
    return check_names


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
    data_path = path_of(job)
    if data_path:
        dataset_prefix = job.dataset.removesuffix(data_path)
        advice = (
            f"write {dataset_prefix}PATH with a path that can be read there; --upload sends a "
            "folder of this machine to the hosts"
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
    absent_text = f"{job.dataset} is not in {data_folder}, and"
    if data_problem:
        problem_text = f"{absent_text} cannot be downloaded into it: {data_problem}"
        return HostFinding(FAILED, problem_text, "put its files there, or use --data-dir")
    download_mb = registry.read_constant("datasets", job.dataset, "DOWNLOAD_MB", 0)
    # Archives are unpacked beside themselves, so that the room may be more than the download.
    room_mb = registry.read_constant("datasets", job.dataset, "ROOM_MB", download_mb)
    if data_free < room_mb * MB:
        free_text = f"only {size(data_free)} are free there"
        problem_text = f"{absent_text} its {size(room_mb * MB)} do not fit: {free_text}"
        return HostFinding(FAILED, problem_text, "make room there, or use --data-dir")
    if data_unreachable:
        return _unreachable(absent_text, data_unreachable)
    return HostFinding(OK, f"fetch {size(download_mb * MB)}", is_download=True)


def _damaged(damaged_files: Sequence[str]) -> HostFinding:
    others_text = f" and {count(len(damaged_files) - 1, 'more file')}" if damaged_files[1:] else ""
    verb, pronoun = ("do", "them") if others_text else ("does", "it")
    problem_text = f"{damaged_files[0]}{others_text} {verb} not have the published checksum"
    return HostFinding(
        FAILED, problem_text, f"replace {pronoun}, or accept {pronoun} with --no-verify-data"
    )


def _unreachable(absent_text: str, servers: Sequence[tuple[str, str]]) -> HostFinding:
    """Say that the data set cannot be downloaded. A server that did not answer in a few seconds may
    only be slow, so that is no reason not to start."""
    server_reasons = [
        f"{server_name}: {refusal_reason or 'it does not answer'}"
        for server_name, refusal_reason in servers
    ]
    problem_text = f"{absent_text} cannot be downloaded there ({'; '.join(server_reasons)})"
    advice = (
        "copy its files there, or name a folder that has them with --data-dir; --upload sends a "
        "folder of this machine to the hosts"
    )
    is_certain = all(refusal_reason for _, refusal_reason in servers)
    return HostFinding(FAILED if is_certain else WARNING, problem_text, advice)


def check_job(checked: CheckedHost) -> HostFinding | str:
    """Check for the checkpoint that the run resumes from: one host that has it is enough."""
    job = _job(checked)
    hello = checked.hello
    if not job.resume or hello.resume != job.resume:
        image_side = job.image_side
        return f"images of {image_side}x{image_side}" if image_side else "ok"
    if hello.resume_step:
        return f"step {hello.resume_step}"
    if any(other_host.hello.resume_step for other_host in checked.reached):
        return "none here"
    known_runs: set[str] = set()
    for other_host in checked.reached:
        known_runs.update(other_host.hello.resume_known)
    known_text = "no run there has saved one"
    if known_runs:
        newest_runs = sorted(known_runs, reverse=True)[:3]
        known_text = f"the newest there that have some are {listed(newest_runs)}"
    return HostFinding(
        FAILED,
        f"--resume {job.resume}: no complete checkpoint of it is there; {known_text}",
        "give the hosts that it ran on, a run that was started with --checkpoint-every, or a path "
        "on the hosts",
    )


def check_precision(checked: CheckedHost) -> HostFinding | str:
    """Check whether the CPU has instructions for bf16. It does not matter if every rank has a
    GPU."""
    from training.agent.local_api import lacks_bf16  # with all the host commands

    cpu_flags = checked.hello.flags
    if checked.has_gpu_per_rank:
        return "bf16 on GPUs"
    if not lacks_bf16(cpu_flags):
        return "bf16" if cpu_flags else "not known"
    return HostFinding(WARNING, f"the CPU has no bf16 instructions: {SLOW} there", INSTEAD)


def _job(checked: CheckedHost) -> Job:
    assert checked.plan.job, "only jobs are checked"
    return checked.plan.job


def check_program(checked: CheckedHost) -> HostFinding | str:
    """Check that the user's script is there, and can be started."""
    from training.agent.local_api import programs  # with all the host commands

    plan = checked.plan
    hello = checked.hello
    assert plan.script, "only scripts are checked"
    program = find_main_program(plan.script.words)
    program_name = hello.program_lacking or program.name
    working_folder = program.folder_from(plan.cwd(checked.index))
    missing_part = hello.program_lacks
    if plan.is_local:
        place_advice = "see --cwd, which names another folder"
    else:
        place_advice = "put this folder there with --upload ., or name one that is there with --cwd"
    # A whole command line in quotes is one word, which a shell would have split.
    if missing_part in (programs.FILE, programs.COMMAND) and len(program_name.split()) > 1:
        advice = f"leave out the quotes: -- {program_name}"
        return HostFinding(FAILED, f"there is no program '{program_name}'", advice)
    findings = {
        programs.FOLDER: (f"there is no folder {working_folder}", place_advice),
        programs.NO_FILE: (
            f"{program_name} is a folder",
            f"name the program in it, such as -- {program_name.rstrip('/')}/train.py",
        ),
        programs.FILE: (f"there is no {program_name} in {working_folder}", place_advice),
        programs.MODULE: (
            f"its Python finds no module {program_name}, nor is it in {working_folder}",
            f"install it there ({hello.executable} -m pip install …), or {place_advice}",
        ),
        programs.COMMAND: (
            f"there is no command {program_name}",
            f"write -- ./{program_name} for a file of that name, or give its whole path",
        ),
        programs.EXECUTE: (
            f"{program_name} is not executable",
            f"chmod +x {program_name} there, or write -- bash {program_name}",
        ),
        programs.READ: (
            f"{hello.user} may not read {program_name} in {working_folder}",
            f"chmod +r {program_name} there",
        ),
    }
    if missing_part in findings:
        return HostFinding(FAILED, *findings[missing_part])
    return "uploaded" if plan.project else program_name or "ok"
