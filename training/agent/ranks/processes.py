"""This host's processes: who descends from whom, how to end them all, and what Linux offers beyond
POSIX for that.

Where there is no /proc, psutil answers if it is installed; else a process has no known descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time

from training.agent.host.system import LINUX, psutil

_PDEATHSIG, _NAME, _CHILD_SUBREAPER = 1, 15, 36


def name(title: str) -> None:
    """Let ps and top show this process under a title of up to 15 characters."""
    _prctl(_NAME, ctypes.c_char_p(title.encode()))


def adopt() -> None:
    """Be the parent of every descendant that loses its own, however it tried to get away (Linux;
    elsewhere nothing)."""
    _prctl(_CHILD_SUBREAPER, ctypes.c_ulong(1))


def end_with_parent() -> None:
    """Have SIGTERM sent to this process when the thread that forked it ends (Linux; elsewhere
    nothing)."""
    _prctl(_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))


def _prctl(option: int, value: ctypes.c_char_p | ctypes.c_ulong) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def lower_priority(by: int) -> None:
    """Raise the niceness of this thread alone: on Linux each has its own, and a fork inherits its
    thread's."""
    if LINUX:
        thread = threading.get_native_id()
        os.setpriority(
            os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + by)
        )


def descendants(pid: int) -> list[int]:
    """All processes below this one, parents before children."""
    if not LINUX:
        return _psutil_descendants(pid)
    found = _children(pid)
    for child in found:
        found += _children(child)  # the loop goes on over what is added
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _psutil_descendants(pid: int) -> list[int]:
    if psutil is None:
        return []
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def send(pid: int, number: int) -> None:
    """Signal one process, unless it has ended or is not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_group(leader: int, number: int) -> None:
    """Signal a process group, unless it has ended or is not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def end_descendants(seconds: float) -> list[int]:
    """KILL everything below this process until nothing is left, for so long at most. Returns what
    is left."""
    deadline = time.monotonic() + seconds
    while True:
        left = descendants(os.getpid())
        for pid in left:
            send(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if time.monotonic() > deadline:
            return left
        time.sleep(0.005)
