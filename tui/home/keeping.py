"""What one keeps with the run under the cursor of a list: a star, a note, a name; to resume and to
delete it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from remote.format import size
from remote.record.entry import Entry
from remote.record.query import QueryError
from tui.home.history import History
from tui.kit.background import RepeatedTask, run_in_background
from tui.kit.choice_dialogs import TextPrompt
from tui.kit.dialogs import DeleteDialog, Leave
from tui.kit.exit import MISTAKES
from tui.kit.messages import ResumeRun

if TYPE_CHECKING:
    from remote.host_commands.pruning import Removable

ERRORS = (*MISTAKES, OSError, QueryError)
"""What can go wrong, which is told in a line."""


class Keeping(Screen[None]):
    """A screen with a cursor on a recorded run, or on something else."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self._removable = RepeatedTask(self, self._ask_to_delete, self.fail)

    def choose_entry(self) -> Entry | None:
        """Return the recorded run under the cursor, which a person now does something with."""
        raise NotImplementedError

    def read(self) -> None:
        """Look again at what is recorded."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Say what went wrong in the background."""
        if not isinstance(error, ERRORS):
            raise error
        self.notify(str(error), severity="error", markup=False)

    def _change(self, act: Callable[..., None], *given: Any) -> None:
        """Change what is kept with the run, and look again."""
        try:
            act(*given)
        except ERRORS as error:
            self.notify(str(error), severity="error", markup=False)
        self.read()

    def action_star(self) -> None:
        run = self.choose_entry()
        if run:
            self._change(self.history.star, run.name, not run.star)

    def action_note(self) -> None:
        run = self.choose_entry()
        if run:
            self._ask_for("note", run.note, partial(self.history.note, run.name))

    def action_name(self) -> None:
        run = self.choose_entry()
        if run:
            self._ask_for("name", run.label, partial(self.history.name, run.name))

    def _ask_for(self, what: str, text: str, keep: Callable[[str], None]) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self._change(keep, text)

        help = f"The {what} of the run; an empty one removes it."
        self.app.push_screen(TextPrompt(what, help, text), answered)

    def action_resume(self) -> None:
        run = self.choose_entry()
        if run:
            self.post_message(ResumeRun(run.name))

    def action_delete(self) -> None:
        run = self.choose_entry()
        if run:
            self._removable.begin(lambda: (run.name, *self.history.removable(run.name)))

    def _ask_to_delete(self, found: tuple[str, Sequence[Removable], str]) -> None:
        run, going, why = found
        if not going:
            self.notify(f"{run} is kept: {why}", severity="warning", markup=False)
            return
        where = dict.fromkeys(one.host or "here" for one in going)
        what = f"{run}, {size(sum(one.size for one in going))} ({', '.join(where)})"

        def answered(answer: Leave | None) -> None:
            if answer is Leave.DELETE:
                remove = partial(self.history.remove, going)
                run_in_background(self, remove, self._tell_removed, self.fail)

        question = f"Delete {what}? Its checkpoints, logs and figures are lost."
        self.app.push_screen(DeleteDialog(question), answered)

    def _tell_removed(self, found: tuple[int, Sequence[str]]) -> None:
        freed, problems = found
        self.notify("\n".join((f"removed {size(freed)}", *problems)), markup=False)
        self.read()
