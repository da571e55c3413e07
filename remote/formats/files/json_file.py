"""JSON: an object a line, or one document, such as the trainer_state.json of Hugging Face's
Trainer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from remote.formats.catalog import format_named
from remote.formats.files.entries import MAX_LENGTH, EntryFile
from remote.formats.numbers import is_number
from remote.formats.reading import OTHER, Reading

STATE = "trainer_state.json"
HISTORY = "log_history"
"""The key of the entries in a trainer_state.json."""
_OPENS = ("{", "[")
_CLOSES = ("}", "]")


class JsonFile(EntryFile):
    """Reads one file. A document is read once it is whole; written anew, it reports what is new in
    it."""

    def __init__(self) -> None:
        super().__init__("JSON")
        self._document: list[str] = []
        self._size = 0

    def _read_line(self, line: str) -> list[Reading]:
        # Not `strip`: in an indented document, only the first and the last line begin with a
        # bracket.
        line = line.rstrip()
        if line.startswith(_OPENS):
            value = _decode_part(line)
            if value is None:  # the first line of a document
                self._document = [line]
                self._size = len(line)
                return []
            self._document = []
            return self._readings(value, "JSON lines")
        if not self._document or self._size + len(line) > MAX_LENGTH:
            self._document.clear()
            return []
        self._document.append(line)
        self._size += len(line)
        if not line.startswith(_CLOSES):
            return []
        text = "\n".join(self._document)
        self._document.clear()
        return self._readings(_decode_part(text), "JSON")

    def _readings(self, value: Any, format_name: str) -> list[Reading]:
        if not self.format:
            self._format_name = format_name
        if isinstance(value, dict) and isinstance(value.get(HISTORY), list):
            return self._read_history(value)
        readings: list[Reading] = []
        for entry in _objects(value if isinstance(value, list) else [value]):
            readings += self._reading(_numbers(entry))
        return readings

    def _read_history(self, state: dict[str, Any]) -> list[Reading]:
        """Return what is new in the state of a Trainer."""
        if self._format_name != STATE:
            self._format_name = STATE
            self._begin(format_named("Hugging Face Trainer").names)
        steps = state.get("max_steps")
        has_steps = type(steps) is int and steps > 0
        readings: list[Reading] = []
        for entry in _objects(state[HISTORY]):
            known_entry = {"steps": steps, **entry} if has_steps else entry
            for reading in self._reading(_numbers(known_entry)):
                # The last entry is about the whole run.
                is_last = "train_runtime" in entry
                readings.append(replace(reading, kind=OTHER) if is_last else reading)
        return readings


def _decode_part(text: str) -> Any:
    """Return the value of a text that is JSON, or part of an array, such as `{…},`; None if it is
    neither."""
    value = _decode(text)
    if value is not None:
        return value
    return _decode(f"[{text.removeprefix('[').rstrip(',]')}]") or None


def _decode(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _objects(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


def _numbers(entry: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the numbers of an entry. Those of objects within have both names: `train/loss`."""
    numbers: list[tuple[str, float]] = []
    for name, value in entry.items():
        if isinstance(value, dict):
            fields = [(f"{name}/{inner}", number) for inner, number in value.items()]
        else:
            fields = [(name, value)]
        for field, number in fields:
            if is_number(number):
                numbers.append((field, float(number)))
    return numbers
