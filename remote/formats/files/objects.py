"""JSON: an object a line, or one document, such as the trainer_state.json of Hugging Face's
Trainer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from remote.formats.files.entries import LONGEST, Entries, Lines
from remote.formats.known.hugging_face import NAMES
from remote.formats.numbers import is_number
from remote.formats.reading import OTHER, Reading

HISTORY = "log_history"
"""What holds the entries in a trainer_state.json."""
_OPENS = ("{", "[")
_CLOSES = ("}", "]")


class Objects:
    """Reads one file. A document is read once it is whole; written anew, it tells what is new in
    it."""

    unread = 0

    def __init__(self) -> None:
        self._lines = Lines()
        self._document: list[str] = []
        self._size = 0
        self._entries, self._trainer = Entries(), Entries(NAMES)
        self.format = ""

    def read(self, text: str) -> list[Reading]:
        """What the objects tell."""
        return [reading for line in self._lines.of(text) for reading in self._read(line)]

    def _read(self, line: str) -> list[Reading]:
        line = line.rstrip()
        if line.startswith(_OPENS):
            found = _part(line)
            self._document, self._size = ([line], len(line)) if found is None else ([], 0)
            return self._told(found, "JSON lines")
        if not self._document or self._size + len(line) > LONGEST:
            self._document.clear()
            return []
        self._document.append(line)
        self._size += len(line)
        if not line.startswith(_CLOSES):
            return []
        found = _part("\n".join(self._document))
        self._document.clear()
        return self._told(found, "JSON")

    def _told(self, found: Any, how: str) -> list[Reading]:
        if isinstance(found, dict) and isinstance(found.get(HISTORY), list):
            how = "trainer_state.json"
            entries = found[HISTORY]
            steps = found.get("max_steps")
            common = {"steps": steps} if type(steps) is int and steps > 0 else {}
            made = [self._entry(common | one) for one in _objects(entries)]
        else:
            objects = _objects(found if isinstance(found, list) else [found])
            made = [self._entries.reading(_numbers(one)) for one in objects]
        readings = [reading for reading in made if reading is not None]
        if readings:
            self.format = self.format or how
        return readings

    def _entry(self, values: dict[str, Any]) -> Reading | None:
        """An entry of the trainer's history. The last one tells of the whole run."""
        reading = self._trainer.reading(_numbers(values))
        if reading is None or "train_runtime" not in values:
            return reading
        return replace(reading, kind=OTHER)


def _part(text: str) -> Any:
    """What a text holds that is JSON, or part of an array, such as `{…},`; None if it is
    neither."""
    found = _load(text)
    if found is not None:
        return found
    return _load(f"[{text.removeprefix('[').rstrip(',]')}]") or None


def _load(text: str) -> Any:
    """What a text of JSON holds; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _objects(found: list[Any]) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)]


def _numbers(values: dict[str, Any]) -> list[tuple[str, float]]:
    """The numbers among the values. Those of objects within have both names."""
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            within = [(f"{name}/{one}", number) for one, number in value.items()]
        else:
            within = [(name, value)]
        for each, number in within:
            if is_number(number):
                found.append((each, float(number)))
    return found
