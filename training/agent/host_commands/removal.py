"""Removes what ended runs have left on this host's disk, and code that no run uses any more.
Follows no link."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from training.agent.host.system import LINUX
from training.agent.host_commands import run_folders
from training.agent.host_commands.orphans import find_orphans
from training.agent.layout import ARCHIVES, LOCK, RUNS, run_folder
from training.file_locks import try_lock
from training.wire.host_replies import Removed, codec

_NAME = re.compile(rf"{RUNS}/([^/]+)/(\d+)|{ARCHIVES}/([^/]+)")
TRIES = 5
"""How often the lock of a run folder is tried."""
_GOING = ".removed-"
"""How the name of what is just being removed begins; it is renamed first, so that nobody meets half
of it."""


class RemovalRefused(Exception):
    """Something is not removed; says why."""


def remove(workdir: str, *names: str) -> Iterator[dict[str, Any]]:
    """Run the host command `remove WORKDIR NAME …`, each name a folder below WORKDIR:
    `runs/RUN/HOST INDEX` or `code/DIGEST`."""
    orphans = find_orphans([workdir]) if LINUX else []
    runs_with_orphans = {(orphan.run, orphan.host) for orphan in orphans}
    for name in names:
        try:
            _remove_named(workdir, name, runs_with_orphans)
        except RemovalRefused as error:
            yield codec.object(Removed(name, str(error)))
        except OSError as error:
            yield codec.object(Removed(name, error.strerror or str(error)))
        else:
            for parent in (RUNS, ARCHIVES):
                finish_removals(f"{workdir}/{parent}")
            yield codec.object(Removed(name))


def _remove_named(workdir: str, name: str, runs_with_orphans: set[tuple[str, int]]) -> None:
    match = _NAME.fullmatch(name)
    if not match or any(part in (".", "..") for part in name.split("/")):
        raise RemovalRefused("no name of a run's folder or of code")
    run, host_number, archive_name = match.groups()
    if archive_name:
        _remove_archive(workdir, archive_name)
        return
    host = int(host_number)
    if (run, host) not in run_folders.list_run_folders(workdir):
        raise RemovalRefused("no such folder, or a link")
    if (run, host) in runs_with_orphans:
        raise RemovalRefused("processes of it are left: rankboard ps --orphans")
    if run_folders.examine(workdir, run, host).live:
        raise RemovalRefused("it is live")
    folder = run_folder(workdir, run, host)
    with hold_lock(folder):
        begin_removal(folder, f"{workdir}/{RUNS}")
    with suppress(OSError):  # another host's folder is in it
        os.rmdir(os.path.dirname(folder))


def _remove_archive(workdir: str, name: str) -> None:
    run_folders_there = [
        run_folders.examine(workdir, run, host)
        for run, host in run_folders.list_run_folders(workdir)
    ]
    archives = run_folders.list_archives(workdir, run_folders_there)
    if name not in {archive.name for archive in archives if not archive.used}:
        raise RemovalRefused("a run uses it, or may")
    begin_removal(f"{workdir}/{ARCHIVES}/{name}", f"{workdir}/{ARCHIVES}")


@contextmanager
def hold_lock(folder: str) -> Iterator[None]:
    """Hold a run folder's lock, so that no agent begins there. Raises: Refused, while a guard has
    it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock_descriptor = os.open(f"{folder}/{LOCK}", flags, 0o600)
    try:
        try_count = 1
        while not try_lock(lock_descriptor):  # who lists runs looks at the lock for a moment
            if try_count == TRIES:
                raise RemovalRefused("it is live")
            try_count += 1
            time.sleep(0.02)
        yield
    finally:
        os.close(lock_descriptor)


def begin_removal(folder: str, parent: str) -> None:
    """Take a folder away from where anybody looks for it; `finish_removals` removes it."""
    os.rename(folder, f"{parent}/{_GOING}{os.getpid()}-{time.monotonic_ns()}")


def finish_removals(parent: str) -> None:
    """Remove what was renamed, also by a removal that did not come to its end."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_GOING) and entry.is_dir(follow_symlinks=False):
                _remove_all(entry.path)


def _remove_all(folder: str) -> None:
    """Remove a folder, however deep it is."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        with suppress(OSError, RecursionError):
            _flatten(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: str) -> None:
    """Move every folder that lies deeper to the top, so that none is left in another."""
    pending_folders = _folders_in(folder)
    moved_count = 0
    while pending_folders:
        for inner_folder in _folders_in(pending_folders.pop()):
            moved_count += 1
            pending_folders.append(f"{folder}/{_GOING}{os.getpid()}-{moved_count}")
            os.rename(inner_folder, pending_folders[-1])


def _folders_in(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
