"""What a person keeps with runs while watching them: the pin of the baseline, notes at steps."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from textual.app import App

from remote.plan.plan import PlanError
from remote.plan.serialize import OtherFormat
from remote.record import marks
from remote.record.events_file import RunFolderError
from remote.record.read import load_plan
from remote.record.step_notes import read_step_notes, write_step_note
from remote.record.tape import preview_tape
from remote.run.run_state import RunState
from tui.app.file_saving import find_shown_session
from tui.app.quitting import DashboardRuns
from tui.kit.messages import NoteStep, PinRun, ReadBaseline, ReadStepNotes

NOT_WRITTEN = "nothing is written to the record of this run"


class RunMarks:
    """Pins runs, and keeps the state of the pinned one, which is read slowly; writes notes."""

    def __init__(self, app: App[None], runs: DashboardRuns) -> None:
        self._app = app
        self._runs = runs
        self._folder: Path | None = None
        self._run: RunState | None = None

    def pin(self, message: PinRun) -> None:
        """Pin a run, or take its pin away, and say so."""
        folder = message.folder or self._find_shown_folder()
        if folder is None:
            self._app.notify(NOT_WRITTEN, markup=False)
            return
        name = marks.name(folder) or folder.name
        try:
            is_pinned = not marks.is_pinned(folder)
            marks.pin(folder, is_pinned)
        except OSError as error:
            self._app.notify(f"cannot pin {name}: {error}", severity="error", markup=False)
            return
        text = "is the baseline of all charts" if is_pinned else "is not pinned any more"
        self._app.notify(f"{name} {text}", markup=False)
        if message.done:
            message.done()

    def note_step(self, message: NoteStep) -> None:
        """Write a note at a step of the run on the screen."""
        folder = self._find_shown_folder()
        if folder is None:
            self._app.notify(NOT_WRITTEN, markup=False)
            return
        try:
            write_step_note(folder, message.step, message.text)
        except (OSError, PlanError) as error:
            self._app.notify(f"cannot note it: {error}", severity="error", markup=False)
            return
        message.done()

    def read_notes(self, message: ReadStepNotes) -> None:
        """Read the notes at steps of the run on the screen."""
        session = find_shown_session(self._app)
        if session:
            message.take(read_step_notes(self._runs.runs_dir / session.plan.run))

    def _find_shown_folder(self) -> Path | None:
        session = find_shown_session(self._app)
        return self._runs.folder_of(session.plan.run) if session else None

    async def read_baseline(self, message: ReadBaseline) -> None:
        """Read the run that is pinned, unless that was done before."""
        folder = await asyncio.to_thread(marks.find_pinned, self._runs.runs_dir)
        if folder != self._folder:
            self._folder = folder
            self._run = await asyncio.to_thread(_read_run, folder) if folder else None
        name = marks.name(folder) or folder.name if folder else ""
        message.take(name, self._run)


def _read_run(folder: Path) -> RunState | None:
    """Return the state of a recorded run; None if it cannot be read."""
    try:
        with closing(preview_tape(folder, load_plan(folder))) as tape:
            return tape.state
    except (RunFolderError, OtherFormat, PlanError, OSError):
        return None
