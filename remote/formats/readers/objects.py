"""JSON objects and dicts of Python, one a line."""

from __future__ import annotations

import json
import re
from typing import Any

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.numbers import NUMBER, is_number
from remote.formats.patterns import LazyRegex, NameTable
from remote.formats.reading import Reading
from remote.formats.step_counter import StepCounter, reports_progress

WRAPPED = LazyRegex(
    r"(?:tensor|np\.\w{1,10}|float)\((\s{0,2}[-+\w.]{1,40})"
    r"(?:, (?:device|grad_fn|dtype)=[^)\n]{0,60})?\)"
)
"""A number as Python shows it within its type: `tensor(0.5, device='cuda:0')`."""
_PYTHON_PAIR = LazyRegex(rf"'([\w/. ()@-]{{1,80}})': '?({NUMBER})'?(?![\w.])")
_STEP_BEFORE = re.compile(
    r"\s{0,8}(?:(?:global_)?(?:step|iter|iteration)[\s:=]{1,3})?(\d{1,12}):? \{", re.IGNORECASE
)
_FARTHEST = 200
"""Characters between the prefixes of a line and an object in it."""


class ObjectLine:
    """Reads the numbers of an object that has a step, or an epoch and a metric."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._names = NameTable(log_format.names)
        self._counter = StepCounter()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        begin = line.find("{", start, start + _FARTHEST)
        if begin < 0 or line[start:begin].rstrip().endswith(("=", "(")):  # code
            return None
        values: dict[str, float] = {}
        step = _STEP_BEFORE.match(line[start : begin + 1])
        if step:
            values["step"] = float(step[1])
        for printed, value in _pairs(line[begin:]):
            self._names.add(values, printed, value)
        if "step" in values or reports_progress(values):
            return self._counter.reading(values, memory)
        return None


def _pairs(text: str) -> list[tuple[str, Any]]:
    if text.startswith("{'"):
        pairs: list[tuple[str, Any]] = _PYTHON_PAIR.findall(WRAPPED.sub(r"\1", text))
        return pairs
    json_object = _decode_object(text)
    return [(name, value) for name, value in json_object.items() if is_number(value)]


def _decode_object(text: str) -> dict[str, Any]:
    """Return the object at the beginning of a text, an empty one if there is none."""
    try:
        # `json.loads` would refuse an object with text behind it.
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
