"""Keys that do nothing where they are pressed: what is said then, and what is typed next."""

from __future__ import annotations

import math

from textual.events import Key
from textual.widget import Widget

PROMPTS = frozenset(("filter", "note", "note-step", "name", "find", "filter-log"))
"""Actions that ask for a text."""
PAUSE = 1.0
"""Seconds without a key after which a text that nobody asked for has ended."""
REPEAT = 5.0
"""Seconds in which the same refusal is said once."""


class Refusals:
    """What an app has refused last.

    Who presses the key of a prompt types on at once. Where there is no prompt, that text must not
    run the commands of its letters.
    """

    def __init__(self) -> None:
        self._typed_until = -math.inf
        self._last_text = ""
        self._last_time = -math.inf

    def refuse_prompt(self, when: float) -> None:
        """Take in that no prompt came at this time: what is typed next is a text."""
        self._typed_until = when + PAUSE

    def takes(self, event: Key) -> bool:
        """Return True if a key belongs to a text that nobody asked for."""
        if event.time >= self._typed_until:
            return False
        if event.is_printable:
            self._typed_until = event.time + PAUSE
            return True
        self._typed_until = -math.inf
        return event.key == "enter"

    def is_new(self, text: str, when: float) -> bool:
        """Return True if this has not been said a moment ago."""
        is_repeated = text == self._last_text and when < self._last_time + REPEAT
        self._last_text = text
        self._last_time = when
        return not is_repeated


def refuse_prompt(widget: Widget, text: str) -> None:
    """Say why a key opens no prompt here. What is typed next does nothing."""
    refusals = getattr(widget.app, "refusals", None)  # only our own apps have it
    if isinstance(refusals, Refusals):
        refusals.refuse_prompt(Key("", None).time)
    widget.notify(text, markup=False)
