"""Keeps the values of secret variables out of the journal: where a rank prints one, its name
replaces it.

Only values that are printed unchanged are found, not those that a rank encodes or splits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from training.wire.commands import Placement, stand_in
from training.wire.events import Event
from training.wire.host_events import OutputText, Raised, Stack
from training.wire.jsonl import dumps

SHORTEST = 8
"""Characters of the shortest text that is hidden. Shorter ones, such as `1` or `offline`, occur
anywhere by chance."""


class Redaction:
    """The texts to hide and their replacements, the longest first, because one may contain
    another."""

    def __init__(self) -> None:
        self._replacements: dict[str, str] = {}
        self._any_secret = re.compile("")
        self.longest = 0
        """Characters of the longest text to hide."""

    def learn(self, placements: Iterable[Placement]) -> None:
        """Also hide the secrets of these ranks, from now on."""
        for placement in placements:
            for name, value in placement.env:
                if name in placement.secret:
                    self._replacements |= dict.fromkeys(_spellings(value), stand_in(name))
        self._replacements = dict(
            sorted(self._replacements.items(), key=lambda entry: -len(entry[0]))
        )
        self._any_secret = re.compile("|".join(map(re.escape, self._replacements)))
        self.longest = max(map(len, self._replacements), default=0)

    def clean(self, events: list[Event]) -> list[Event]:
        """Return the events with all secrets replaced."""
        return [self._clean_event(event) for event in events] if self._replacements else events

    def _clean_event(self, event: Event) -> Event:
        return (
            replace(event, text=self.hide(event.text))
            if isinstance(event, (OutputText, Stack, Raised))
            else event
        )

    def hide(self, text: str) -> str:
        """Return the text with all secrets replaced."""
        for value, name in self._replacements.items():
            text = text.replace(value, name)
        return text

    def cut(self, text: str) -> tuple[str, str]:
        """Split an incomplete text into a first part, with its secrets replaced, and the unchanged
        rest: its last characters may be the beginning of a secret."""
        if not self._replacements:
            return text, ""
        safe_end = max(0, len(text) - self.longest + 1)
        clean_parts = list[str]()
        copied_end = 0
        for match in self._any_secret.finditer(text):
            if match.start() >= safe_end:
                break
            clean_parts += (text[copied_end : match.start()], self._replacements[match[0]])
            copied_end = match.end()
        return "".join(clean_parts) + text[copied_end : max(copied_end, safe_end)], text[
            max(copied_end, safe_end) :
        ]


def _spellings(value: str) -> set[str]:
    """Return the value and each of its lines: plain, and as JSON and Python quote them."""
    plain_texts = {text for text in (value, *value.splitlines()) if len(text) >= SHORTEST}
    in_json = {quote_text(text)[1:-1] for text in plain_texts for quote_text in (dumps, json.dumps)}
    # repr escapes ' only if there is a ", so the texts get both
    in_python = {
        quote_text("'\"" + text)[4:-1] for text in plain_texts for quote_text in (repr, ascii)
    }
    return plain_texts | in_json | in_python | {text.replace("\\'", "'") for text in in_python}
