"""What Linux's /proc tells of one process. All functions return nothing if it is gone, belongs to
another user, or there is no /proc. Imports little."""

from __future__ import annotations

import os
from contextlib import suppress

from training.agent.host.system import read_text

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_COMMAND = 60
"""Characters of a command that are shown."""


def read_name(pid: int | str) -> str:
    """Return the name of a process, which is not that of its program: a process may set it."""
    return read_text(f"/proc/{pid}/comm").strip()


def read_command(pid: int) -> list[str]:
    """Return the program of a process and its arguments, each in one line; none of the kernel's."""
    words = read_text(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
    return [" ".join(word.split()) for word in words] if words != [""] else []


def shorten_command(words: Sequence[str], *, words_shown: int) -> str:
    """Return a command in so many words and at most `LONGEST_COMMAND` characters."""
    program, *arguments = words[:words_shown]
    text = " ".join([os.path.basename(program), *arguments])
    if len(text) > LONGEST_COMMAND:
        return f"{text[:LONGEST_COMMAND]}…"
    return f"{text} …" if len(words) > words_shown else text


def read_stat(pid: int) -> list[str]:
    """Return the fields of its `stat` that follow its name: its state, its parent, …"""
    # The name before the last parenthesis may contain anything.
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def read_status(pid: int | str, wanted_field: str) -> str:
    """Return a field in the status of a process, or of a thread ("PID/task/TID")."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        field_name, _, value = line.partition(":")
        if field_name == wanted_field:
            return value.strip()
    return ""


def state_letter(pid: int) -> str:
    """Return the letter of the kernel for the state of a process; Z if it is gone."""
    return read_status(pid, "State")[:1] or "Z"


def describe_state(pid: int) -> str:
    """Describe the kernel's state of a process: "state: S (sleeping), in futex_do_wait; process 7,
    python". Process 0 is not started."""
    if not pid:
        return "state: not started"
    state = read_status(pid, "State")
    if not state:
        return "state: unknown: there is no such process, or no /proc"
    waits_in = read_text(f"/proc/{pid}/wchan").strip("0\n")
    if waits_in:
        state += f", in {waits_in}"
    return f"state: {state}; process {pid}, {read_status(pid, 'Name')}"


def open_files(pid: int | str) -> Iterator[tuple[str, str]]:
    """Yield the path below /proc of each open file of a process, and what it leads to."""
    fd_folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for descriptor in os.listdir(fd_folder):
            with suppress(OSError):  # it has just been closed
                link_path = f"{fd_folder}/{descriptor}"
                yield link_path, os.readlink(link_path)
