"""What the kernel, and py-spy if it is installed, report about a process."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time

MOST = 64 << 10
"""The most characters of py-spy's output that are reported."""


def read_status(process: int | str, name: str) -> str:
    """Return a field in the status of a process, or of a thread ("PID/task/TID"); "" if there is
    none."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file,
    ):
        for line in file:
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""


def describe_state(process: int) -> str:
    """Describe the kernel's state of a process: "state: S (sleeping), in futex_do_wait; process 7,
    python". Process 0 is not started."""
    if not process:
        return "state: not started"
    words = read_status(process, "State")
    if not words:
        return "state: unknown: there is no such process, or no /proc"
    waits = ""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process}/wchan", encoding="ascii", errors="replace") as file,
    ):
        waits = file.read().strip("0\n")
    return (
        f"state: {words}{f', in {waits}' if waits else ''}; process {process}, "
        f"{read_status(process, 'Name')}"
    )


def state_letter(process: int) -> str:
    """Return the letter of the kernel for the state of a process; Z if it is gone."""
    return read_status(process, "State")[:1] or "Z"


def find_py_spy() -> str:
    """Return the path of py-spy, next to this Python or on PATH; "" if it is not installed."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


def start_py_spy(spy: str, process: int) -> subprocess.Popen[str] | None:
    """Start py-spy on a process, which keeps running. None if it cannot be started."""
    argv = [spy, "dump", "--nonblocking", "--full-filenames", "--pid", str(process)]
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    return None


def read_output(spying: subprocess.Popen[str] | None, deadline: float) -> str:
    """Return the output of py-spy until `deadline` (by `time.monotonic`); "" if there is none, for
    example because it lacks permission."""
    if spying is None:
        return ""
    try:
        text = spying.communicate(timeout=max(0.0, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        spying.kill()
        spying.communicate()
        return ""
    # The agent's loop may have reaped it first, so its exit code means nothing.
    return text.strip()[:MOST] if "\nThread " in text else ""
