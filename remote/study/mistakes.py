"""The mistakes in a study file, each with its line and what to write instead."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from remote.study.study import StudyError


@dataclass
class StudyMistakes:
    """Collects the mistakes in a study file."""

    file: str
    """The name of the file in messages."""
    text: str
    _mistakes: list[tuple[float, str]] = field(default_factory=list)
    """Lines and messages."""

    def __len__(self) -> int:
        return len(self._mistakes)

    def add(self, mistake: str) -> None:
        """Note a mistake of the file as a whole."""
        # Behind all that have a line.
        self._mistakes.append((math.inf, f"{self.file}: {mistake}"))

    def add_at(self, key: str, mistake: str, table: str = "", value: Any = None) -> None:
        """Note a mistake at the line of a key, if possible one that has the value, too."""
        line_number = find_line(self.text, key, table, value)
        if line_number:
            self._mistakes.append((line_number, f"{self.file}: line {line_number}: {mistake}"))
        else:
            self.add(mistake)

    def refuse(self) -> None:
        """Raise a `StudyError` if there is a mistake: each once, in order of the lines."""
        if self._mistakes:
            # By the line alone: mistakes of one line stay in the order in which they were found.
            ordered_mistakes = sorted(self._mistakes, key=lambda mistake: mistake[0])
            messages = dict.fromkeys(message for _, message in ordered_mistakes)
            raise StudyError("\n".join(messages))


def find_line(text: str, key: str, table: str = "", value: Any = None) -> int:
    """Return the number of the first line that sets a key, within a table if one is named.

    A line that also has the value goes first. Return 0 if there is no such line.
    """
    first_number = 0
    is_inside = not table
    # Keys may be written with dashes, see `with_underscores`.
    key_pattern = re.escape(key).replace("_", "[-_]")
    sets_key = re.compile(rf"""(^|[{{,]|\[\[?)\s*["']?{key_pattern}["']?\s*(=|\])""")
    begins_table = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\b")
    for line_number, line in enumerate(text.splitlines(), start=1):
        line_content = line.lstrip()
        if table and line_content.startswith("["):
            is_inside = bool(begins_table.match(line))
        if not is_inside or line_content.startswith("#") or not sets_key.search(line):
            continue
        if value is None or str(value) in line:
            return line_number
        first_number = first_number or line_number
    # Not in that table, so the mistake may be in a key with dots: look at the whole file.
    if table and not first_number:
        return find_line(text, key, value=value)
    return first_number


def format_toml(value: Any) -> str:
    """Return a value as a file has it."""
    if isinstance(value, dict):
        pairs = [f"{key} = {format_toml(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(format_toml, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)
