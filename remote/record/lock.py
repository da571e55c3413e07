"""Find out which launcher records a run: a lock in the run directory, held for as long as it
records, and the process that the file names.

The file may be somebody else's work. The process that it names is signalled only if it is this
user's rankboard and holds the lock.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct

from remote.plan.plan import PlanError
from remote.record import files
from remote.record.layout import LOCK
from training.file_locks import try_lock, unlock

if TYPE_CHECKING:
    import psutil

STOP = signal.SIGUSR1
"""Asks that launcher to stop the run. SIGTERM would also come at a shutdown, which a kept run
survives."""
TRIES = 1000
MOMENT = 0.001
"""How often the lock is tried where somebody only looks, and the seconds between two tries."""
LONGEST = 256
"""Bytes of the file that are read."""


class Holder(Struct, frozen=True):
    """The process that records a run."""

    pid: int
    """0 if it is not known."""
    machine: str
    """The name of its machine."""

    @property
    def is_here(self) -> bool:
        """Return True if it runs on this machine. Several machines may share a folder."""
        return self.machine == socket.gethostname()

    def __str__(self) -> str:
        process = f"process {self.pid}" if self.pid else f"a process that {LOCK} does not name"
        return process + ("" if self.is_here else f" on {self.machine}")


def launcher(folder: Path) -> Holder | None:
    """Return the process that records the run now, or None."""
    with suppress(OSError):
        lock_file = files.open_regular(folder / LOCK, os.O_RDONLY)
        try:
            if not try_lock(lock_file, shared=True):
                return _named(os.pread(lock_file, LONGEST, 0))
        finally:
            os.close(lock_file)
    return None


def _named(lock_text: bytes) -> Holder:
    """Return the process that the text of a lock file names."""
    pid_text, _, machine = lock_text.decode(errors="replace").strip().partition(" ")
    pid = int(pid_text) if pid_text.isascii() and pid_text.isdigit() else 0
    machine_name = machine if machine and machine.isprintable() else socket.gethostname()
    return Holder(pid if 1 < pid < 2**31 else 0, machine_name)


def take(lock_path: Path) -> int:
    """Take the lock. Return a descriptor that holds it while it is open. Raises: OSError;
    PlanError, if another launcher holds it."""
    lock_file = files.open_regular(lock_path, os.O_RDWR | os.O_CREAT)
    if not _exclusively(lock_file):
        holder = _named(os.pread(lock_file, LONGEST, 0))
        os.close(lock_file)
        launcher_text = f"the launcher of {lock_path.parent.name} is still there, {holder}"
        raise PlanError(
            f"{launcher_text}: leave it there (q and d in its dashboard), or watch with rankboard "
            f"logs {lock_path.parent.name} --follow"
        )
    os.ftruncate(lock_file, 0)
    os.write(lock_file, f"{os.getpid()} {socket.gethostname()}\n".encode())
    os.fsync(lock_file)  # for who looks from another machine
    return lock_file


def _exclusively(lock_file: int) -> bool:
    """Take the lock; return False if another launcher has it. A process that only looks (see
    `launcher`) shares it for a moment, and is waited for."""
    for _ in range(TRIES):
        if try_lock(lock_file):
            return True
        if not try_lock(lock_file, shared=True):
            return False
        unlock(lock_file)
        time.sleep(MOMENT)
    return False


def notify(folder: Path, signal_number: signal.Signals) -> Holder | None:
    """Signal the launcher that records the run, and return it; None if there is none.

    Raises: PlanError, if it is on another machine, another user's, or not the process that the
    file names.
    """
    holder = launcher(folder)
    if not holder:
        return None
    if not holder.is_here:
        raise PlanError(
            f"{folder.name}: its launcher is {holder.machine}'s process {holder.pid}: stop it there"
        )
    # Anybody may have written the file, and any process may have the number in it by now.
    if not (holder.pid and _is_ours(holder.pid, folder / LOCK)):
        if not launcher(folder):  # it has ended just now
            return None
        raise PlanError(
            f"{folder.name}: {folder / LOCK} names {holder}, which is not your rankboard that "
            "records this run: nothing is "
            "signalled. Stop its launcher where it was started"
        )
    try:
        os.kill(holder.pid, signal_number)
    except ProcessLookupError:
        return None
    return holder


def _is_ours(pid: int, lock_path: Path) -> bool:
    """Return True if a process is this user's rankboard and holds the lock."""
    import psutil  # which takes a while, and nobody else here needs it

    try:
        process = psutil.Process(pid)
        is_rankboard = any(PurePath(word).name == "rankboard" for word in process.cmdline())
        return is_rankboard and process.uids().real == os.getuid() and _holds(process, lock_path)
    except (psutil.Error, OSError):
        return False


def _holds(process: psutil.Process, lock_path: Path) -> bool:
    lock_status = lock_path.lstat()
    if not sys.platform.startswith("linux"):  # which does not tell of locks, but of open files
        return any(
            os.path.samestat(os.stat(open_file.path), lock_status)
            for open_file in process.open_files()
        )
    # /proc/locks would not do: it names the process that took a lock, which may have handed it
    # on.
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.path.samestat(descriptor.stat(), lock_status):
                descriptor_info = Path(f"/proc/{process.pid}/fdinfo/{descriptor.name}").read_text()
                if re.search(r"^lock:.* FLOCK .* WRITE ", descriptor_info, re.MULTILINE):
                    return True
    return False
