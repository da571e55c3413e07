"""The runs of this host: what a launcher that has not watched them can learn of them.

A run is live as long as its guard holds the lock of its folder. All else is read from the ends of
its journal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from training.agent.host_commands.journal_summary import JournalSummary, read_ends
from training.agent.journal import read_format
from training.agent.layout import ARCHIVES, CODE, LAST, LOCK, PLAN, RUNS, run_folder
from training.agent.live_runs import is_locked, read_slots, read_small_file
from training.agent.ranks.launch import CODE as OWN_CODE
from training.wire.format import READABLE
from training.wire.host_events import Launched
from training.wire.host_replies import STILL, CodeArchive, RunFolder, codec
from training.wire.jsonl import load

NEWEST = 4
"""Runs that have begun of which a host tells where it is asked for the last one: launchers look for
the newest that most hosts of a run know."""


def runs(workdir: str) -> Iterator[dict[str, Any]]:
    """Run the host command `runs WORKDIR`: yield every run folder and every archive of code
    there."""
    run_folders = []
    for run, host in list_run_folders(workdir):
        try:
            run_folders.append(examine(workdir, run, host))
        except FileNotFoundError:  # it has just been removed
            continue
        except OSError as error:
            yield {"error": f"{error.filename or run}: {error.strerror}"}
        else:
            yield codec.object(run_folders[-1])
    yield from map(codec.object, list_archives(workdir, run_folders))


def live(workdir: str, *requested_runs: str) -> Iterator[dict[str, Any]]:
    """Run the host command `live WORKDIR [RUN …]`: yield every live run folder there, and those of
    the given runs even if they have ended, without their sizes.

    Launchers ask for it again and again, so what else has ended long ago is not read.
    """
    for run, host in list_run_folders(workdir):
        try:
            is_requested = run in requested_runs
            if is_requested or _is_perhaps_live(run_folder(workdir, run, host)):
                folder = examine(workdir, run, host, sized=False)
                if folder.live or is_requested:
                    yield codec.object(folder)
        except FileNotFoundError:  # it has just been removed
            continue
        except OSError as error:
            yield {"error": f"{error.filename or run}: {error.strerror}"}


def _is_perhaps_live(folder: str) -> bool:
    """Return True if a guard holds the folder, or another machine that shares it may be at work
    there. Raises: OSError."""
    if is_locked(f"{folder}/{LOCK}"):
        return True
    return time.time() - _last_change(folder) < STILL


def _last_change(folder: str) -> float:
    """Return when something was last written there. Raises: OSError."""
    entries = (entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder))
    return max(entries, default=0.0)


def plan(workdir: str, requested_name: str) -> Iterator[dict[str, Any]]:
    """Run the host command `plan WORKDIR RUN`: answer with the kept plans of the runs that RUN may
    mean.

    RUN is the name of a run, the name that a person gave it, the beginning of its name, or `last`:
    then these are the newest runs that have begun, and all that are live. Each answer is `{"run":
    NAME, "plan": TEXT, "live": IS_LIVE, "begun": HAS_BEGUN, "now": TIME}`, with what time it is
    here.
    """
    hosts_by_run: dict[str, list[int]] = {}
    for run, host in list_run_folders(workdir):
        if os.path.exists(_plan_path(workdir, run, host)):
            hosts_by_run.setdefault(run, []).append(host)
    candidates = _newest_runs(workdir, hosts_by_run) if requested_name == LAST else hosts_by_run
    plans: dict[str, str] = {}
    for run in candidates:
        with suppress(OSError):
            plan_bytes = read_small_file(_plan_path(workdir, run, hosts_by_run[run][-1]))
            if requested_name == LAST or _is_meant(requested_name, run, plan_bytes):
                plans[run] = plan_bytes.decode(errors="replace")
    if requested_name in plans:
        plans = {requested_name: plans[requested_name]}
    answers = []
    for run, plan_text in plans.items():
        is_live = _is_live(workdir, run, hosts_by_run[run])
        has_begun = is_live or _has_begun(workdir, run, hosts_by_run[run])
        answers.append({"run": run, "plan": plan_text, "live": is_live, "begun": has_begun})
    # as late as can be: the launcher compares it with the moment in which the first of this comes
    now = time.time()
    for answer in answers:
        yield {**answer, "now": now}


def _plan_path(workdir: str, run: str, host: int) -> str:
    return f"{run_folder(workdir, run, host)}/{PLAN}"


def _newest_runs(workdir: str, hosts_by_run: dict[str, list[int]]) -> list[str]:
    """Return the newest runs that have begun, and all live ones; if none has begun, the newest
    run."""
    newest_runs: list[str] = []
    for run in reversed(hosts_by_run):
        is_live = _is_live(workdir, run, hosts_by_run[run])
        # journals are looked at no longer than necessary: there may be hundreds
        is_newest = len(newest_runs) < NEWEST and _has_begun(workdir, run, hosts_by_run[run])
        if is_live or is_newest:
            newest_runs.append(run)
    return newest_runs or list(hosts_by_run)[-1:]


def _is_meant(requested_name: str, run: str, plan_bytes: bytes) -> bool:
    """Return True if somebody may mean this run."""
    return run.startswith(requested_name) or (load(plan_bytes) or {}).get("label") == requested_name


def _is_live(workdir: str, run: str, hosts: Sequence[int]) -> bool:
    return any(is_held(workdir, run, host) for host in hosts)


def _has_begun(workdir: str, run: str, hosts: Sequence[int]) -> bool:
    """Return whether ranks of the run were started."""
    for host in hosts:
        with suppress(OSError):
            records = read_ends(run_folder(workdir, run, host), host)
            if any(isinstance(record.event, Launched) for record in records):
                return True
    return False


def list_run_folders(workdir: str) -> Iterator[tuple[str, int]]:
    """Yield each run's name with each host index that there is a folder of; links are none."""
    for run in _folders_in(f"{workdir}/{RUNS}"):
        for host in _folders_in(f"{workdir}/{RUNS}/{run}"):
            if host.isascii() and host.isdigit() and str(int(host)) == host:
                yield run, int(host)


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and entry.name[0] != "."
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_held(workdir: str, run: str, host: int) -> bool:
    """Return True if a run's guard is alive, or may be: the folder of another user is not for us to
    judge."""
    try:
        return is_locked(f"{run_folder(workdir, run, host)}/{LOCK}")
    except OSError:
        return True


def examine(workdir: str, run: str, host: int, *, sized: bool = True) -> RunFolder:
    """Read what there is to know of a run's folder. Raises: OSError.

    `sized`: with its bytes on disk, which takes longest if there is much.
    """
    folder = run_folder(workdir, run, host)
    now = time.time()
    # before the journal: what has ended by then has written its last record
    is_guarded = is_locked(f"{folder}/{LOCK}")
    folder_bytes = folder_size(folder) if sized else 0
    format_number = read_format(folder)
    if format_number not in READABLE:
        changed_at = _last_change(folder)
        # another machine, which shares the folder, may write it
        is_live = is_guarded or now - changed_at < STILL
        known_fields = (
            run,
            host,
            folder,
            is_live,
            "unreadable",
            0.0,
            changed_at,
            now,
            folder_bytes,
        )
        return RunFolder(*known_fields, format=format_number)
    summary = JournalSummary()
    for record in read_ends(folder, host):
        summary.hear(record)
    is_live = is_guarded or summary.perhaps_elsewhere(now)
    has_plan, hosts, world_size, label = _read_plan(folder)
    return RunFolder(
        run=run,
        host=host,
        folder=folder,
        live=is_live,
        phase=summary.doing() if is_live else summary.verdict(),
        began=summary.began,
        last=summary.last,
        now=now,
        size=folder_bytes,
        step=summary.step,
        steps=summary.steps,
        ranks=summary.ranks,
        exits=tuple(summary.exits.values()),
        hosts=hosts,
        world_size=world_size,
        planned=has_plan,
        here=summary.here,
        ended=summary.ended,
        label=label,
        attempt=summary.attempt,
        stop_heard=summary.stop_heard,
        failed=summary.failed,
        moved=summary.moved if summary.step_times else 0.0,
        step_seconds=summary.step_seconds,
    )


def _read_plan(folder: str) -> tuple[bool, int, int, str]:
    """Return if the plan is there, its hosts and its ranks, and the name that a person gave."""
    try:
        plan_data = load(read_small_file(f"{folder}/{PLAN}")) or {}
    except FileNotFoundError:
        return False, 0, 0, ""
    slots = read_slots(plan_data)
    label = plan_data.get("label")
    return True, len(slots), sum(slots), label if slots and isinstance(label, str) else ""


def folder_size(folder: str) -> int:
    """Return the bytes that a folder takes on its disk; links count as themselves.

    What cannot be looked at, as it has just gone or lies too deep, counts as nothing.
    """
    total_bytes = 0
    pending_folders = [folder]
    while pending_folders:
        with suppress(OSError), os.scandir(pending_folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    # The kernel counts blocks of 512 bytes, whatever those of the disk are.
                    total_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending_folders.append(entry.path)
    return total_bytes


def list_archives(workdir: str, run_folders: Sequence[RunFolder]) -> Iterator[CodeArchive]:
    """Yield the code in the workdir. If a live run does not name its code, any may be its."""
    used_folders = {_code_folder(folder) for folder in run_folders if folder.live}
    used_folders.add(os.path.realpath(OWN_CODE))
    for archive_name in _folders_in(f"{workdir}/{ARCHIVES}"):
        folder = os.path.realpath(f"{workdir}/{ARCHIVES}/{archive_name}")
        with suppress(FileNotFoundError):
            idle_seconds = time.time() - os.stat(folder).st_mtime
            is_used = bool(used_folders & {"", folder}) or idle_seconds < STILL
            yield CodeArchive(archive_name, folder_size(folder), is_used, idle_seconds)


def _code_folder(folder: RunFolder) -> str:
    with suppress(OSError, ValueError):
        code_path = read_small_file(f"{folder.folder}/{CODE}").decode().strip()
        return os.path.realpath(code_path) if code_path else ""
    return ""
