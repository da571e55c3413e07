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
from training.agent.layout import ARCHIVES, CODE, LAST, LOCK, PLAN, RUNS, expand_workdir, run_folder
from training.agent.live_runs import is_locked, read_small_file
from training.agent.ranks.launch import CODE as OWN_CODE
from training.wire.events import Launched
from training.wire.format import FORMAT, format_of
from training.wire.host_replies import STILL, CodeArchive, RunFolder, codec
from training.wire.jsonl import load

NEWEST = 4
"""Runs that have begun of which a host tells where it is asked for the last one: launchers look for
the newest that most hosts of a run know."""


def runs(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the host command `runs WORKDIR`: yield every run folder and every archive of code
    there."""
    workdir = expand_workdir(arguments[0])
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


def live(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the host command `live WORKDIR [RUN …]`: yield every live run folder there, and those of
    the given runs even if they have ended, without their sizes.

    Launchers ask for it again and again, so what else has ended long ago is not read.
    """
    workdir = expand_workdir(arguments[0])
    asked_of = arguments[1:]
    for run, host in list_run_folders(workdir):
        try:
            is_asked_of = run in asked_of
            if is_asked_of or _is_perhaps_live(run_folder(workdir, run, host)):
                folder = examine(workdir, run, host, sized=False)
                if folder.live or is_asked_of:
                    yield codec.object(folder)
        except FileNotFoundError:  # it has just been removed
            continue
        except OSError as error:
            yield {"error": f"{error.filename or run}: {error.strerror}"}


def _is_perhaps_live(folder: str) -> bool:
    """Return True if a guard holds the folder, or another machine that shares it may be at work
    there. Raises: OSError."""
    if is_locked(os.path.join(folder, LOCK)):
        return True
    return time.time() - _changed(folder) < STILL


def _changed(folder: str) -> float:
    """Return when something was last written there. Raises: OSError."""
    entries = (entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder))
    return max(entries, default=0.0)


def plan(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run the host command `plan WORKDIR RUN`: answer with the kept plans of the runs that RUN may
    mean.

    RUN is the name of a run, the name that a person gave it, the beginning of its name, or `last`:
    then these are the newest runs that have begun, and all that are live. Each answer is `{"run":
    NAME, "plan": TEXT, "live": IS_LIVE, "begun": HAS_BEGUN, "now": TIME}`, with what time it is
    here.
    """
    workdir = expand_workdir(arguments[0])
    requested = arguments[1]
    hosts_by_run: dict[str, list[int]] = {}
    for run, host in list_run_folders(workdir):
        if os.path.exists(os.path.join(run_folder(workdir, run, host), PLAN)):
            hosts_by_run.setdefault(run, []).append(host)
    plans: dict[str, dict[str, Any]] = {}
    for run in _newest(workdir, hosts_by_run) if requested == LAST else hosts_by_run:
        with suppress(OSError):
            text = read_small_file(
                os.path.join(run_folder(workdir, run, hosts_by_run[run][-1]), PLAN)
            )
            if requested == LAST or _is_meant(requested, run, text):
                plans[run] = {"run": run, "plan": text.decode(errors="replace")}
    if requested in plans:
        plans = {requested: plans[requested]}
    for run, answer in plans.items():
        answer["live"] = _is_live(workdir, run, hosts_by_run[run])
        answer["begun"] = answer["live"] or _has_begun(workdir, run, hosts_by_run[run])
    # as late as can be: the launcher compares it with the moment in which the first of this comes
    now = time.time()
    for answer in plans.values():
        yield {**answer, "now": now}


def _newest(workdir: str, hosts_by_run: dict[str, list[int]]) -> list[str]:
    """Return the newest runs that have begun, and all live ones; if none has begun, the newest
    run."""
    newest: list[str] = []
    for run in reversed(hosts_by_run):
        is_live = _is_live(workdir, run, hosts_by_run[run])
        # journals are looked at no longer than necessary: there may be hundreds
        is_newest = len(newest) < NEWEST and _has_begun(workdir, run, hosts_by_run[run])
        if is_live or is_newest:
            newest.append(run)
    return newest or list(hosts_by_run)[-1:]


def _is_meant(requested: str, run: str, plan: bytes) -> bool:
    """Return True if somebody may mean this run."""
    return run.startswith(requested) or (load(plan) or {}).get("label") == requested


def _is_live(workdir: str, run: str, hosts: Sequence[int]) -> bool:
    for host in hosts:
        with suppress(OSError):
            if is_locked(os.path.join(run_folder(workdir, run, host), LOCK)):
                return True
    return False


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
    for run in _folders_in(os.path.join(workdir, RUNS)):
        for host in _folders_in(os.path.join(workdir, RUNS, run)):
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
        return is_locked(os.path.join(run_folder(workdir, run, host), LOCK))
    except OSError:
        return True


def examine(workdir: str, run: str, host: int, *, sized: bool = True) -> RunFolder:
    """Read what there is to know of a run's folder. Raises: OSError.

    `sized`: with its bytes on disk, which takes longest if there is much.
    """
    folder = run_folder(workdir, run, host)
    now = time.time()
    is_guarded = is_locked(
        os.path.join(folder, LOCK)
    )  # before the journal: what has ended by then has written its last record
    format_number = read_format(folder)
    if format_number != FORMAT:
        return _of_another_format(folder, run, host, is_guarded, format_number)
    summary = JournalSummary()
    for record in read_ends(folder, host):
        summary.hear(record)
    live = is_guarded or summary.perhaps_elsewhere(now)
    has_plan, hosts, world_size, label = _planned(folder)
    return RunFolder(
        run=run,
        host=host,
        folder=folder,
        live=live,
        phase=summary.doing() if live else summary.verdict(),
        began=summary.began,
        last=summary.last,
        now=now,
        size=folder_size(folder) if sized else 0,
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
    )


def _of_another_format(
    folder: str, run: str, host: int, is_guarded: bool, format_number: int
) -> RunFolder:
    """Return what can be known of a run without reading its records. Raises: OSError."""
    now = time.time()
    changed = _changed(folder)
    return RunFolder(
        run=run,
        host=host,
        folder=folder,
        live=is_guarded
        or now - changed < STILL,  # another machine, which shares the folder, may write it
        phase="unknown",
        began=0.0,
        last=changed,
        now=now,
        size=folder_size(folder),
        format=format_number,
    )


def _planned(folder: str) -> tuple[bool, int, int, str]:
    """Return if the plan is there, its hosts and its ranks, and the name that a person gave."""
    try:
        plan_data = load(read_small_file(os.path.join(folder, PLAN)))
    except FileNotFoundError:
        return False, 0, 0, ""
    hosts = plan_data.get("hosts") if plan_data and format_of(plan_data) == FORMAT else None
    if not plan_data or not isinstance(hosts, list):
        return True, 0, 0, ""
    slots_by_host = [host.get("slots", 1) if isinstance(host, dict) else 1 for host in hosts]
    rank_count = sum(number for number in slots_by_host if isinstance(number, int))
    label = plan_data.get("label")
    return True, len(hosts), rank_count, label if isinstance(label, str) else ""


def folder_size(folder: str) -> int:
    """Return the bytes that a folder takes on its disk; links count as themselves.

    What cannot be looked at, as it has just gone or lies too deep, counts as nothing.
    """
    total = 0
    list_run_folders = [folder]
    while list_run_folders:
        with suppress(OSError), os.scandir(list_run_folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        list_run_folders.append(entry.path)
    return total


def list_archives(workdir: str, run_folders: Sequence[RunFolder]) -> Iterator[CodeArchive]:
    """Yield the code in the workdir. If a live run does not name its code, any may be its."""
    used_folders = {_code(folder) for folder in run_folders if folder.live} | {
        os.path.realpath(OWN_CODE)
    }
    for name in _folders_in(os.path.join(workdir, ARCHIVES)):
        folder = os.path.join(workdir, ARCHIVES, name)
        with suppress(FileNotFoundError):
            idle_seconds = time.time() - os.stat(folder).st_mtime
            yield CodeArchive(
                name,
                folder_size(folder),
                "" in used_folders
                or os.path.realpath(folder) in used_folders
                or idle_seconds < STILL,
                idle_seconds,
            )


def _code(folder: RunFolder) -> str:
    with suppress(OSError, ValueError):
        path = read_small_file(os.path.join(folder.folder, CODE)).decode().strip()
        return os.path.realpath(path) if path else ""
    return ""
