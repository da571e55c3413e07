"""The line in which a regular expression is typed, to find or to filter lines of a log."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static


class PromptBar(Horizontal):
    """The line of the prompt, which begins with the key that has opened it."""

    DEFAULT_CSS = """
    PromptBar { height: 1; background: $surface; }
    PromptBar > Static { width: 2; }
    """


class PatternPrompt(Input):
    """An input that posts the regular expression at each key."""

    DEFAULT_CSS = "PatternPrompt { background: $surface; width: 1fr; }"

    @dataclass
    class Typed(Message):
        """Posted when the expression has changed."""

        pattern: re.Pattern[str] | None
        """The expression, or None if nothing is typed."""

    class Done(Message):
        """Posted when the user has confirmed the expression."""

    def __init__(self, before: re.Pattern[str] | None, *, filters: bool) -> None:
        """Make a prompt that starts with the pattern `before`.

        With `filters`, only lines that match are shown; else, matches are marked.
        """
        purpose = "show only lines with" if filters else "find"
        super().__init__(
            before.pattern if before else "",
            placeholder=f"{purpose} (a regular expression; lower case matches both cases)",
            compact=True,
        )
        self.before = before
        self.filters = filters
        self.problem = Static(markup=False)
        self.problem.display = False
        self.bar = PromptBar()

    def open(self, container: Widget) -> None:
        """Show the prompt at the bottom of a container and focus it."""
        container.mount(self.bar, self.problem)
        self.bar.mount(Static("&" if self.filters else "/"), self)
        container.screen.set_focus(self)

    def close(self) -> None:
        """Remove the prompt."""
        self.bar.remove()
        self.problem.remove()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        pattern, problem = compile_pattern(self.value)
        self.problem.update(problem)
        self.problem.display = bool(problem)
        if not problem:
            self.post_message(self.Typed(pattern))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.problem.display:
            self.post_message(self.Done())


def compile_pattern(text: str) -> tuple[re.Pattern[str] | None, str]:
    """Compile a regular expression. Return it, or None and what is wrong with it.

    An expression without capital letters ignores case. The empty one is None, and not wrong.
    """
    if not text:
        return None, ""
    has_capitals = any(character.isupper() for character in text)
    flags = re.NOFLAG if has_capitals else re.IGNORECASE
    try:
        # Python's warnings about odd expressions would be written over the screen.
        with warnings.catch_warnings(action="ignore"):
            return re.compile(text, flags), ""
    except (re.error, OverflowError, RecursionError) as error:
        return None, f"bad regex: {error}"
