"""Read and write what a person keeps with a run: a star, a pin, a note and a name.

They lie in the run's own folder, so they go where it goes, and two commands at once change
different files.
"""

from __future__ import annotations

from pathlib import Path

from remote.limits import LIMITS
from remote.plan.plan import LONGEST_LABEL, PlanError, is_label
from remote.record import files
from remote.record.layout import NAME, NOTE, PIN, STAR
from remote.sanitise import unseen_character
from training.agent.layout import LAST
from training.writing import write_whole


def star(folder: Path, starred: bool) -> None:
    """Star a run, or take its star away. Raises: OSError."""
    if starred:
        write_whole(folder / STAR, b"")
    else:
        (folder / STAR).unlink(missing_ok=True)


def pin(folder: Path, pinned: bool) -> None:
    """Pin a run as the baseline of the runs beside it, in place of another; or take its pin away.
    Raises: OSError."""
    for pin_file in folder.parent.glob(f"*/{PIN}"):
        pin_file.unlink(missing_ok=True)
    if pinned:
        write_whole(folder / PIN, b"")


def find_pinned(runs_dir: Path) -> Path | None:
    """Return the folder of the run that is pinned; None if there is none."""
    return next((path.parent for path in sorted(runs_dir.glob(f"*/{PIN}"))), None)


def write_note(folder: Path, text: str) -> None:
    """Replace the note of a run; an empty text removes it. Raises: OSError; PlanError, if it is too
    long."""
    note_bytes = text.strip().encode("utf-8", "backslashreplace")
    if len(note_bytes) >= LIMITS.small_file:
        raise PlanError(f"the note is longer than {LIMITS.small_file:,} bytes: write less")
    _write(folder / NOTE, note_bytes)


def write_name(folder: Path, text: str) -> None:
    """Name a run; an empty text takes its name away. Raises: OSError; PlanError, if it is no
    name."""
    _write(folder / NAME, checked_name(text).encode())


def checked_name(text: str) -> str:
    """Return the name of a run without blanks around it. Raises: PlanError, if it is none."""
    name = text.strip()
    if len(name) > LONGEST_LABEL:
        raise PlanError(f"--name: {len(name)} characters: give a name of at most {LONGEST_LABEL}")
    unseen = unseen_character(name)
    if unseen:
        raise PlanError(f"--name {text!r}: it has {unseen}, which cannot be seen: leave it out")
    if name and not is_label(name):
        raise PlanError(
            f"--name {text!r}: give a name in one line and without a slash, such as 'baseline'; "
            f"{LAST} stands for the newest run"
        )
    return name


def _write(path: Path, mark_bytes: bytes) -> None:
    if mark_bytes:
        write_whole(path, mark_bytes + b"\n")
    else:
        path.unlink(missing_ok=True)


def is_starred(folder: Path) -> bool:
    """Return True if a run has a star."""
    return (folder / STAR).is_file()


def is_pinned(folder: Path) -> bool:
    """Return True if a run is the baseline."""
    return (folder / PIN).is_file()


def note(folder: Path, on_failure: files.Failed = files.ignore) -> str:
    """Return the note of a run; "" if there is none. `on_failure` is called with the error if it
    cannot be read."""
    return _read(folder / NOTE, on_failure)


def name(folder: Path, on_failure: files.Failed = files.ignore) -> str:
    """Return the name that a person gave a run; "" if there is none. See `note`."""
    # The file may be somebody else's, with a name of any length.
    return _read(folder / NAME, on_failure)[:LONGEST_LABEL]


def _read(path: Path, on_failure: files.Failed) -> str:
    try:
        return files.read(path, LIMITS.small_file).decode(errors="replace").strip()
    except OSError as error:
        on_failure(error)
        return ""
