"""JSON: an object a line, or one document, such as the trainer_state.json of Hugging Face's
Trainer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from remote.formats.catalog import format_named
from remote.formats.files.entries import MAX_LENGTH, FileEntries, LineJoiner
from remote.formats.numbers import is_number
from remote.formats.reading import OTHER, Reading

HISTORY = "log_history"
"""The key of the entries in a trainer_state.json."""
_OPENS = ("{", "[")
_CLOSES = ("}", "]")


class JsonFile:
    """Reads one file. A document is read once it is whole; written anew, it reports what is new in
    it."""

    unread = 0

    def __init__(self) -> None:
        self.format = ""
        self._lines = LineJoiner()
        self._document: list[str] = []
        self._size = 0
        self._entries = FileEntries()
        self._trainer_entries = FileEntries(format_named("Hugging Face Trainer").names)

    def read(self, text: str) -> list[Reading]:
        """Return what the objects report."""
        readings: list[Reading] = []
        for line in self._lines.feed(text):
            readings += self._read_line(line.rstrip())
        return readings

    def _read_line(self, line: str) -> list[Reading]:
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
        if isinstance(value, dict) and isinstance(value.get(HISTORY), list):
            format_name = "trainer_state.json"
            candidates = self._trainer_readings(value)
        else:
            objects = _objects(value if isinstance(value, list) else [value])
            candidates = [self._entries.reading(_numbers(entry)) for entry in objects]
        readings = [reading for reading in candidates if reading is not None]
        if readings:
            self.format = self.format or format_name
        return readings

    def _trainer_readings(self, state: dict[str, Any]) -> list[Reading | None]:
        steps = state.get("max_steps")
        has_steps = type(steps) is int and steps > 0
        readings: list[Reading | None] = []
        for entry in _objects(state[HISTORY]):
            known_entry = {"steps": steps, **entry} if has_steps else entry
            reading = self._trainer_entries.reading(_numbers(known_entry))
            # The last entry is about the whole run.
            if reading is not None and "train_runtime" in entry:
                reading = replace(reading, kind=OTHER)
            readings.append(reading)
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
