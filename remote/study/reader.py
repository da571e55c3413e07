"""Reads single keys of a study, and notes each mistake with its line and what to write instead."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.study.study import Target
from training import options
from training.registry import did_you_mean

TOP = ("title", "question", "repetitions", "seed", "limit", "metric", "target")
"""The keys of a study that stand above all tables."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)")


class StudyError(ValueError):
    """Mistakes in a study or in how it is called, one line each, with what to write instead."""


@dataclass
class Reader:
    """The text of a study, and the mistakes found in it. `file` names it in messages."""

    file: str
    text: str
    mistakes: list[tuple[float, str]] = field(default_factory=list)

    def add(self, mistake: str) -> None:
        """Note a mistake of the file as a whole."""
        self.mistakes.append((math.inf, f"{self.file}: {mistake}"))

    def say(self, key: str, mistake: str, table: str = "", value: Any = None) -> None:
        """Note a mistake at the line of this key, if possible one that has the value, too."""
        number = _line(self.text, key, table, value)
        where = f"line {number}: " if number else ""
        self.mistakes.append((number or math.inf, f"{self.file}: {where}{mistake}"))

    def told(self) -> str:
        """The mistakes, each once, in order of their lines."""
        lines = (text for _, text in sorted(self.mistakes, key=lambda one: one[0]))
        return "\n".join(dict.fromkeys(lines))

    def check_keys(self, table: Any, known: Sequence[str], name: str) -> None:
        """Note the keys of a table that are not known."""
        if not isinstance(table, dict):
            return
        for key in [key for key in table if key not in known]:
            near = did_you_mean(key, known) or f"; the keys are {', '.join(known)}"
            self.say(key, (name and of_top(key)) or f"unknown key '{key}'{near}", name)

    def one_line(self, data: Mapping[str, Any], key: str, default: str) -> str:
        value = data.get(key, default)
        if isinstance(value, str) and value.isprintable():
            return value
        self.say(key, f'{key} = {written(value)}: write one line of text in quotes, {key} = "…"')
        return default

    def number(self, data: Mapping[str, Any], key: str, default: int, low: int, high: int) -> int:
        value = data.get(key, default)
        if type(value) is int and low <= value <= high:
            return value
        self.say(key, f"{key} = {written(value)}: write a whole number from {low} to {high}")
        return default

    def choice(
        self, data: Mapping[str, Any], key: str, default: str, known: Mapping[str, str]
    ) -> str:
        value = data.get(key, default)
        if isinstance(value, str) and value in known:
            return value
        near = did_you_mean(str(value), known)
        self.say(key, f"{key} = {written(value)}: write one of {', '.join(known)}{near}")
        return default

    def seconds(self, value: Any) -> float:
        found = DURATION.fullmatch(value) if isinstance(value, str) else None
        if found and float(found[1]) > 0:
            return float(found[1]) * UNITS[found[2]]
        self.say(
            "limit", f'limit = {written(value)}: write a time such as "90 s", "10 min" or "2 h"'
        )
        return UNITS["h"]

    def target(self, value: Any) -> Target | None:
        if value is None:
            return None
        if isinstance(value, dict) and len(value) == 1:
            (metric, goal), *_ = value.items()
            is_number = isinstance(goal, int | float) and not isinstance(goal, bool)
            highest = {"loss": math.inf, "accuracy": 1.0}.get(metric, 0.0)
            if is_number and 0 < goal <= highest:
                return Target(metric, float(goal))
        self.say(
            "target",
            f"target = {written(value)}: write {{ accuracy = 0.6 }}, a fraction, or "
            "{ loss = 0.5 }",
        )
        return None


def _line(text: str, key: str, table: str = "", value: Any = None) -> int:
    """The number of the first line that sets this key, within this table if one is named; 0 where
    none is found. With a value, a line that has it goes first."""
    found = 0
    inside = not table
    pattern = re.compile(rf"""(^|[{{,]|\[\[?)\s*["']?{re.escape(key)}["']?\s*(=|\])""")
    dashed = re.compile(pattern.pattern.replace("_", "[-_]"))
    for number, line in enumerate(text.splitlines(), start=1):
        if table and re.match(r"\s*\[", line):
            inside = bool(re.match(rf"\s*\[\[?\s*{re.escape(table)}\b", line))
        if inside and not line.lstrip().startswith("#") and dashed.search(line):
            if value is None or str(value) in line:
                return number
            found = found or number
    return found or (_line(text, key, "", value) if table else 0)


def of_top(key: str) -> str:
    """That a key does not belong into a table; "" where it may."""
    return f"{key} belongs to the top of the file, above all [tables]" if key in TOP else ""


def is_label(value: Any) -> bool:
    """Whether a value can name a cell: a text that fits into a line."""
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def name_of(key: str) -> str:
    """The name of a setting, which may be written with dashes."""
    return key.replace("-", "_")


def label_of(value: Any) -> str:
    """How a value is shown."""
    return options.write(value) if isinstance(value, bool | int | float) else str(value)


def written(value: Any) -> str:
    """A value as a file has it."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {written(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def overridden(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with these changes. Steps override epochs, and epochs steps."""
    length = {"steps", "epochs"}
    left = {
        key: value for key, value in base.items() if not (length & set(changes) and key in length)
    }
    return {**left, **changes}
