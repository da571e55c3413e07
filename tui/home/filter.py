"""The line in which one filters the list of runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from textual.message import Message
from textual.widgets import Input

from remote.record import query

EXAMPLE = "such as: sync=ring nodes=4 loss<0.5 star"


class Filter(Input):
    """Filters while one types: says `Filtered` of whatever is a filter. It is hidden until `open`;
    `Left` says that one goes on in the list."""

    DEFAULT_CSS = """
    Filter { display: none; height: 1; padding: 0 1; border: none; }
    Filter.-open { display: block; }
    """

    @dataclass
    class Filtered(Message):
        """The list is to show what these words ask for."""

        words: list[str]

    class Left(Message):
        """One has typed the filter."""

    def __init__(self) -> None:
        super().__init__(placeholder=EXAMPLE, compact=True)

    @property
    def is_open(self) -> bool:
        """Return True if there is a filter, or one is being typed."""
        return self.has_class("-open")

    def open(self) -> None:
        """Let the user type."""
        self.add_class("-open")
        self.focus()

    def close(self) -> None:
        """Remove the filter."""
        self.value = ""
        self.remove_class("-open")
        self.post_message(self.Left())

    def on_input_changed(self, event: Input.Changed) -> None:
        """Pass a filter on; what is none yet changes nothing."""
        event.stop()
        try:
            self.post_message(self.Filtered(self._words()))
            self.remove_class("-invalid")
        except ValueError:  # half a word is no mistake yet
            self.add_class("-invalid")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the list; say what is wrong with the filter."""
        event.stop()
        try:
            self._words()
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.set_class(bool(self.value.strip()), "-open")
        self.post_message(self.Left())

    def _words(self) -> list[str]:
        """Raises: ValueError, where it is no filter."""
        words = shlex.split(self.value)
        query.parse(words)
        return words
