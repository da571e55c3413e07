"""Read and write the notes that a person makes at steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from remote.limits import LIMITS
from remote.plan.plan import PlanError
from remote.record import files
from remote.record.layout import STEP_NOTES
from training.writing import write_whole

LAST_STEP = 2**53
"""The greatest step that a float holds exactly, as charts need it."""


class StepNote(msgspec.Struct, frozen=True, order=True):
    """What a person has noted at a step."""

    step: Annotated[int, msgspec.Meta(ge=0, le=LAST_STEP)]
    text: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.text}"


def read_step_notes(folder: Path, on_failure: files.Failed = files.ignore) -> tuple[StepNote, ...]:
    """Return the notes of a run by step; none if they cannot be read, see `marks.note`."""
    try:
        content = files.read(folder / STEP_NOTES, LIMITS.small_file)
        return tuple(sorted(msgspec.json.decode(content, type=list[StepNote])))
    except OSError as error:
        on_failure(error)
    except msgspec.MsgspecError:  # somebody else has written it
        pass
    return ()


def write_step_note(folder: Path, step: int, text: str) -> None:
    """Replace the note at a step; an empty text removes it. Raises: OSError; PlanError, if the
    notes are too long."""
    notes = [note for note in read_step_notes(folder) if note.step != step]
    if text.strip():
        notes.append(StepNote(step, text.strip()))
    content = msgspec.json.encode(sorted(notes))
    if len(content) >= LIMITS.small_file:
        raise PlanError(f"the notes are longer than {LIMITS.small_file:,} bytes: write less")
    if notes:
        write_whole(folder / STEP_NOTES, content + b"\n")
    else:
        (folder / STEP_NOTES).unlink(missing_ok=True)


def join_step_notes(notes: Sequence[StepNote]) -> str:
    """Return all notes in one line."""
    return "; ".join(map(str, notes))
