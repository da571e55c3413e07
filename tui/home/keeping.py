"""Do something with the run under the cursor of a list: star, note or name it, compare it, resume
or delete it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

from remote.format import size
from remote.record import marks, read
from remote.record.entry import Entry
from remote.record.query import QueryError
from tui.home.history import History
from tui.kit.background import RepeatedTask, run_in_background
from tui.kit.bindings import key_of
from tui.kit.choice_dialogs import TextPrompt
from tui.kit.dialogs import DeleteDialog, Leave
from tui.kit.exit import MISTAKES
from tui.kit.messages import CompareRuns, CopyCommand, PinRun, ResumeRun
from tui.kit.refusals import refuse_prompt

if TYPE_CHECKING:
    from remote.host_commands.pruning import Removable

ERRORS = (*MISTAKES, OSError, QueryError)
"""What can go wrong, and is shown in a line."""
MarkT = TypeVar("MarkT")
MOST_COMPARED = 8
"""Runs that are compared at most."""


class Keeping(Screen[None]):
    """A screen with a cursor on a recorded run, or on something else, such as a study."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self.marked: set[str] = set()
        """The names of the runs to compare."""
        self._removable = RepeatedTask(self, self._ask_to_delete, self.fail)

    def choose_entry(self) -> Entry | None:
        """Return the recorded run under the cursor, with which a person does something now."""
        raise NotImplementedError

    def describe_other(self) -> str:
        """Return what is under the cursor instead: "a study"; "" if nothing is."""
        raise NotImplementedError

    def _require_entry(self, problem: str) -> Entry | None:
        """Return the recorded run under the cursor. Say what is wrong with anything else."""
        run = self.choose_entry()
        if run is None and self.describe_other():
            self.notify(f"{self.describe_other()} {problem}", markup=False)
        return run

    def read(self) -> None:
        """Look again at what is recorded."""
        raise NotImplementedError

    def show_marks(self) -> None:
        """Show which runs are marked, and put the cursor on the next one."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Say what went wrong in the background."""
        if not isinstance(error, ERRORS):
            raise error
        self.notify(str(error), severity="error", markup=False)

    def _change(self, run: Entry, write: Callable[[Path, MarkT], object], mark: MarkT) -> None:
        """Change what is kept with the run, and look again."""
        try:
            write(self.history.folder(run.name), mark)
        except ERRORS as error:
            self.notify(str(error), severity="error", markup=False)
        self.read()

    def action_star(self) -> None:
        run = self._require_entry("has no star")
        if run:
            self._change(run, marks.star, not run.star)

    def action_pin(self) -> None:
        run = self.choose_entry()
        if run:
            self.post_message(PinRun(self.history.folder(run.name), self.read))

    def action_note(self) -> None:
        run = self.choose_entry()
        if run:
            self._ask_for("note", run.note, partial(self._change, run, marks.write_note))
        else:
            self._refuse_text("note")

    def action_name(self) -> None:
        run = self.choose_entry()
        if run:
            self._ask_for("name", run.label, partial(self._change, run, marks.write_name))
        else:
            self._refuse_text("name")

    def _refuse_text(self, title: str) -> None:
        """Say that there is nothing to type: who expects a prompt goes on typing."""
        other = self.describe_other()
        if other:
            refuse_prompt(self, f"{other} has no {title}")

    def action_copy_command(self) -> None:
        """Copy the command line that starts such a run."""
        run = self._require_entry("has no command line")
        if run is None:
            return
        try:
            plan = read.load_plan(self.history.folder(run.name))
        except ERRORS as error:
            self.fail(error)
        else:
            self.post_message(CopyCommand(plan))

    def _ask_for(self, title: str, text: str, keep: Callable[[str], object]) -> None:
        """Let the user change a text, and keep it."""

        def take_answer(text: str | None) -> None:
            if text is not None:
                keep(text)

        explanation = f"The {title} of the run; an empty one removes it."
        self.app.push_screen(TextPrompt(title, explanation, text), take_answer)

    def action_mark(self) -> None:
        """Mark the run to compare it, or take the mark away."""
        run = self._require_entry("cannot be compared")
        if run:
            self.marked ^= {run.name}
            self.show_marks()

    def action_compare(self) -> None:
        """Compare the marked runs."""
        if not 2 <= len(self.marked) <= MOST_COMPARED:
            key = key_of(self.app, "mark")
            self.notify(f"mark two to {MOST_COMPARED} runs with {key} first", markup=False)
            return
        folders = [self.history.runs_dir / name for name in sorted(self.marked)]
        self.post_message(CompareRuns(tuple(folders)))

    def action_resume(self) -> None:
        run = self._require_entry("cannot be resumed from here")
        if run:
            self.post_message(ResumeRun(run.name))

    def action_delete(self) -> None:
        run = self._require_entry("cannot be deleted from here")
        if run:
            # The hosts are asked what they have of the run, which takes a while.
            self._removable.begin(lambda: (run.name, *self.history.removable(run.name)))

    def _ask_to_delete(self, answer: tuple[str, Sequence[Removable], str]) -> None:
        run, removables, reason = answer
        if not removables:
            self.notify(f"{run} is kept: {reason}", severity="warning", markup=False)
            return
        places = dict.fromkeys(removable.host or "here" for removable in removables)
        total_size = size(sum(removable.size for removable in removables))
        question = (
            f"Delete {run}, {total_size} ({', '.join(places)})? "
            "Its checkpoints, logs and figures are lost."
        )

        def take_answer(choice: Leave | None) -> None:
            if choice is Leave.DELETE:
                remove = partial(self.history.remove, removables)
                run_in_background(self, remove, self._report_removed, self.fail)

        self.app.push_screen(DeleteDialog(question), take_answer)

    def _report_removed(self, result: tuple[int, Sequence[str]]) -> None:
        freed, problems = result
        self.notify("\n".join((f"removed {size(freed)}", *problems)), markup=False)
        self.read()
