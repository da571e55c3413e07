"""Lines that look as though they told values."""

from __future__ import annotations

import re

_DECIMAL = re.compile(
    r"\.(?<=\d\.)(?<!\.\d\.)(?<!\.\d\d\.)(?<!:\d\d\.)\d{1,30}(?:[eE][-+]?\d{1,4})?(?![\w.:/])[^\n]*"
)
"""A number with decimals, which is no version, no address and no time; and the rest of its line."""


def count(text: str) -> int:
    """How many lines of the text bear numbers with decimals."""
    return len(_DECIMAL.findall(text)) if "." in text else 0


def bears_number(line: str) -> bool:
    """Whether `count` counts this line."""
    return _DECIMAL.search(line) is not None
