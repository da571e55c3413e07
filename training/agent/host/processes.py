"""The processes of this host: their descendants, how to kill them all, and the Linux calls for it.

Without /proc, psutil is used if it is installed; else no descendants are known.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Container, Iterable
from contextlib import suppress

from training.agent.host.proc_files import read_name, state_letter
from training.agent.host.system import LINUX, psutil

_PDEATHSIG = 1
_NAME = 15
_CHILD_SUBREAPER = 36
LOOK = 0.02
"""Seconds between two looks for leftovers."""


def set_process_name(title: str) -> None:
    """Set the name of this process in ps and top, of up to 15 characters."""
    _prctl(_NAME, ctypes.c_char_p(title.encode()))


def become_subreaper() -> None:
    """Make this process the subreaper of all its descendants (Linux only)."""
    _prctl(_CHILD_SUBREAPER, ctypes.c_ulong(1))


def end_with_parent() -> None:
    """Receive SIGTERM when the thread that forked this process ends (Linux only)."""
    _prctl(_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))


def die_with(parent_pid: int) -> None:
    """Receive SIGKILL when the thread that forked this process ends (Linux only). End at once if
    the parent is already dead."""
    _prctl(_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != parent_pid:
        os._exit(1)


def _prctl(option: int, value: ctypes.c_char_p | ctypes.c_ulong) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def close_descriptors(needed: Container[int]) -> None:
    """Close all descriptors of this process but these."""
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor not in needed:
            with suppress(OSError):  # that of the listing itself is already closed
                os.close(descriptor)


def redirect_output(out_descriptor: int, error_descriptor: int, needed: Iterable[int]) -> None:
    """Make these descriptors the stdout and stderr of this process, and /dev/null its stdin. Close
    all other descriptors but these."""
    null_device = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null_device, out_descriptor, error_descriptor)):
        os.dup2(descriptor, number)
    close_descriptors({0, 1, 2, *needed})


def lower_priority(by: int) -> None:
    """Raise the niceness of this thread only (Linux only). A fork inherits that of its thread."""
    if LINUX:
        thread_id = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread_id) + by
        os.setpriority(os.PRIO_PROCESS, thread_id, min(19, niceness))


def descendants(pid: int) -> list[int]:
    """Return all processes below this one, parents before children."""
    if not LINUX:
        return _psutil_descendants(pid)
    pids = list_children(pid)
    for child in pids:
        pids += list_children(child)  # the loop includes what is added
    return pids


def list_children(pid: int) -> list[int]:
    """Return the processes that this one has started, in that order (Linux only)."""
    pids: list[int] = []
    with suppress(OSError):  # it has just exited
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    return pids


def _psutil_descendants(pid: int) -> list[int]:
    if psutil is None:
        return []
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def send(pid: int, signal_number: int) -> None:
    """Signal one process, unless it has exited or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal_number)


def send_group(leader_pid: int, signal_number: int) -> None:
    """Signal a process group, unless it has exited or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal_number)


def signal_name(exit_code: int) -> str:
    """Return the name of the signal of a negative exit code, else ""."""
    if exit_code >= 0:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal
        return f"SIG{-exit_code}"


def end_descendants(seconds: float) -> list[int]:
    """Send KILL to all descendants until none is left, for at most `seconds`. Return the pids that
    are left."""
    deadline = time.monotonic() + seconds
    while True:  # a process may fork between the look and its end
        pids = descendants(os.getpid())
        for pid in pids:
            send(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if time.monotonic() > deadline:
            return pids
        time.sleep(0.005)


def leftovers(seconds: float) -> list[str]:
    """Name the processes below this one that still run after `seconds`: "name (pid 7)"."""
    deadline = time.monotonic() + seconds
    while True:
        pids = [pid for pid in descendants(os.getpid()) if state_letter(pid) != "Z"]
        if not pids or time.monotonic() > deadline:
            return [f"{read_name(pid)} (pid {pid})" for pid in pids]
        time.sleep(LOOK)
