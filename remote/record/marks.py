"""What a person keeps with a run: a star, and a note. They lie in the run's own folder, so they go
where it goes, and two commands at once change different files."""

from __future__ import annotations

from pathlib import Path

from remote.limits import LIMITS
from remote.plan.plan import PlanError
from remote.record import files
from remote.record.layout import NOTE, STAR
from training.writing import write_whole


def star(folder: Path, starred: bool) -> None:
    """Star a run, or take its star away. Raises: OSError."""
    if starred:
        write_whole(folder / STAR, b"")
    else:
        (folder / STAR).unlink(missing_ok=True)


def write_note(folder: Path, text: str) -> None:
    """Replace the note of a run; an empty text removes it. Raises: OSError; PlanError, where it is
    too long."""
    data = text.strip().encode("utf-8", "backslashreplace")
    if len(data) >= LIMITS.small_file:
        raise PlanError(f"the note is longer than {LIMITS.small_file:,} bytes: write less")
    if data:
        write_whole(folder / NOTE, data + b"\n")
    else:
        (folder / NOTE).unlink(missing_ok=True)


def is_starred(folder: Path) -> bool:
    """Whether a run has a star."""
    return (folder / STAR).is_file()


def note(folder: Path, failed: files.Failed = files.ignore) -> str:
    """The note of a run; "" where there is none. `failed` is told why it cannot be read."""
    try:
        return files.read(folder / NOTE, LIMITS.small_file).decode(errors="replace").strip()
    except OSError as error:
        failed(error)
        return ""
