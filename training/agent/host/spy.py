"""What can be told of a process from outside: by the kernel, and where it is installed by
py-spy."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time

MOST = 64 << 10
"""Characters of py-spy's answer that are told."""


def status(process: int | str, name: str) -> str:
    """A line of the process's, or (as "PID/task/TID") thread's, status; "" where there is none."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file,
    ):
        for line in file:
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""


def state(process: int) -> str:
    """What the kernel says of a process: "state: S (sleeping), in futex_do_wait; process 7, python"
    (0: none yet)."""
    if not process:
        return "state: not started"
    words = status(process, "State")
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
        f"{status(process, 'Name')}"
    )


def letter(process: int) -> str:
    """The kernel's letter for its state; Z, as of one that has ended, where it is gone."""
    return status(process, "State")[:1] or "Z"


def path() -> str:
    """Where py-spy is, beside this Python or on PATH; "" where it is not."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


def start(spy: str, process: int) -> subprocess.Popen[str] | None:
    """Let py-spy look; it does not hold the process up meanwhile. None where it cannot be
    started."""
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


def outcome(spying: subprocess.Popen[str] | None, deadline: float) -> str:
    """What it has found by then (`time.monotonic`); "" for nothing, as where it may not look into
    other processes."""
    if spying is None:
        return ""
    try:
        text = spying.communicate(timeout=max(0.0, deadline - time.monotonic()))[0]
    except subprocess.TimeoutExpired:
        spying.kill()
        spying.communicate()
        return ""
    # The agent's loop may have reaped it first, so its exit code tells nothing.
    return text.strip()[:MOST] if "\nThread " in text else ""
