"""The line in which a regular expression is typed, to find or to filter lines of a log."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static


class Bar(Horizontal):
    """The line of the prompt."""

    DEFAULT_CSS = """
    Bar { height: 1; background: $surface; }
    Bar > Static { width: 2; }
    """


class Prompt(Input):
    """Says at each key what is meant by now. `before` is what held when it was opened; `filters`:
    only lines with it are shown."""

    DEFAULT_CSS = "Prompt { background: $surface; width: 1fr; }"

    @dataclass
    class Typed(Message):
        """The expression is this now; None where nothing is typed."""

        pattern: re.Pattern[str] | None

    class Done(Message):
        """What was typed holds."""

    def __init__(self, before: re.Pattern[str] | None, *, filters: bool) -> None:
        what = "show only lines with" if filters else "find"
        super().__init__(
            before.pattern if before else "",
            placeholder=f"{what} (a regular expression; lower case matches both cases)",
            compact=True,
        )
        self.before = before
        self.filters = filters
        self.note = Static(markup=False)
        """What is wrong with the expression, below it."""
        self.note.display = False
        self.bar = Bar()
        """The line, after the key that has opened it."""

    def open(self, beneath: Widget) -> None:
        """Show the line beneath the widgets of a container, and type in it from the next key on."""
        beneath.mount(self.bar, self.note)
        self.bar.mount(Static("&" if self.filters else "/"), self)
        beneath.screen.set_focus(self)

    def close(self) -> None:
        """Take the line away."""
        self.bar.remove()
        self.note.remove()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        pattern, problem = compiled(self.value)
        self.note.update(problem)
        self.note.display = bool(problem)
        if not problem:
            self.post_message(self.Typed(pattern))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.note.display:
            self.post_message(self.Done())


def compiled(text: str) -> tuple[re.Pattern[str] | None, str]:
    """The regular expression, or why it is none. Without capitals in it, case does not matter."""
    if not text:
        return None, ""
    case = 0 if any(map(str.isupper, text)) else re.IGNORECASE
    try:
        with warnings.catch_warnings(action="ignore"):  # they would go to the screen
            return re.compile(text, case), ""
    except (re.error, OverflowError, RecursionError) as error:
        return None, f"bad regex: {error}{_hint(text, error)}"


def _hint(text: str, error: Exception) -> str:
    """What to write in place of the character at fault."""
    at = getattr(error, "pos", None)
    sign = text[at : at + 1] if at is not None else ""
    return f"; \\{sign} finds {sign}" if sign and sign in "()[]{}*+?" else ""
