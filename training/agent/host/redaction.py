"""Keeps the values of secret variables out of the journal: where a rank prints one, the variable's
name takes its place.

Only what a rank prints as it is can be found: a value that it encodes or cuts into pieces is
another text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from training.wire.commands import Placement, stand_in
from training.wire.events import Event, Stack, Text
from training.wire.jsonl import dumps

SHORTEST = 8
"""Characters of the shortest text that is hidden: shorter ones, as `1` or `offline`, stand anywhere
by chance."""


class Redaction:
    """The texts to hide, each with its stand-in, the longest first: one may be part of another."""

    def __init__(self) -> None:
        self._hidden: dict[str, str] = {}
        self._any = re.compile("")
        self.longest = 0
        """Characters of the longest text to hide."""

    def learn(self, placements: Iterable[Placement]) -> None:
        """Hide the secrets of these ranks too, from now on."""
        for placement in placements:
            for name, value in placement.env:
                if name in placement.secret:
                    self._hidden |= dict.fromkeys(_spellings(value), stand_in(name))
        self._hidden = dict(sorted(self._hidden.items(), key=lambda entry: -len(entry[0])))
        self._any = re.compile("|".join(map(re.escape, self._hidden)))
        self.longest = max(map(len, self._hidden), default=0)

    def clean(self, events: list[Event]) -> list[Event]:
        """The events with nothing of the hidden in them."""
        return [self._clean(event) for event in events] if self._hidden else events

    def _clean(self, event: Event) -> Event:
        return (
            replace(event, text=self.hide(event.text))
            if isinstance(event, (Text, Stack))
            else event
        )

    def hide(self, text: str) -> str:
        """The text with a stand-in for each secret in it."""
        for value, name in self._hidden.items():
            text = text.replace(value, name)
        return text

    def cut(self, text: str) -> tuple[str, str]:
        """The beginning of a text that goes on, with a stand-in for each secret that starts in it,
        and the rest as it is: the last characters may be the beginning of a secret whose end has
        not come yet."""
        if not self._hidden:
            return text, ""
        end = max(0, len(text) - self.longest + 1)
        clean, at = list[str](), 0
        for found in self._any.finditer(text):
            if found.start() >= end:
                break
            clean += (text[at : found.start()], self._hidden[found[0]])
            at = found.end()
        return "".join(clean) + text[at : max(at, end)], text[max(at, end) :]


def _spellings(value: str) -> set[str]:
    """The value and each of its lines, as they are and as JSON and Python write them."""
    texts = {text for text in (value, *value.splitlines()) if len(text) >= SHORTEST}
    in_json = {write(text)[1:-1] for text in texts for write in (dumps, json.dumps)}
    # repr escapes a ' only beside a ", so the texts are made to have both
    in_python = {write("'\"" + text)[4:-1] for text in texts for write in (repr, ascii)}
    return texts | in_json | in_python | {text.replace("\\'", "'") for text in in_python}
