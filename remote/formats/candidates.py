"""Find the lines of a text that may hold values. To look at each line with each format would take
100 µs a line; a few passes over the whole text take 1 µs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

# They begin with the point, since `re` jumps quickly from one literal character to the next. They
# take the rest of the line as well: one match is enough for it.
_DECIMALS = re.compile(r"\.(?<=\d\.)(?=\d)[^\n]*")
# The lookbehinds leave out versions, addresses and times.
_UNREAD = re.compile(
    r"\.(?<=\d\.)(?<!\.\d\.)(?<!\.\d\d\.)(?<!:\d\d\.)\d{1,30}(?:[eE][-+]?\d{1,4})?(?![\w.:/])[^\n]*"
)
_WORDS = (
    "nan",
    "inf",
    "e-0",
    "loss",
    "Loss",
    "reward",
    "acc",
    "Acc",
    "step=",
    "batch=",
    "poch ",
    "Num Epochs = ",
    "Total optimization",
    "--------------------",
    "-____-",
    "all   ",
    "Test",
    "tel:",
    "%|",
    ":::MLLOG",
    'step": ',
    "step': ",
)
"""Text in lines that have values without decimals, or that begin a table."""


def find_candidates(text: str) -> list[int]:
    """Return where the lines begin that may hold values."""
    starts = {text.rfind("\n", 0, match.start()) + 1 for match in _DECIMALS.finditer(text)}
    starts.update(find_lines(text, filter(searcher(text), _WORDS)))
    return sorted(starts)


def find_lines(text: str, marks: Iterable[str]) -> list[int]:
    """Return where the lines begin that have one of the marks in them."""
    starts: set[int] = set()
    for mark in dict.fromkeys(marks):
        place = text.find(mark)
        while place >= 0:
            starts.add(text.rfind("\n", 0, place) + 1)
            end = text.find("\n", place + 1)
            place = text.find(mark, end + 1) if end >= 0 else -1
    return sorted(starts)


def searcher(text: str) -> Callable[[str], bool]:
    """Return a function that returns True if a mark may be in the text.

    It looks at each line without its digits once: programs print many lines that differ by numbers
    alone.
    """
    # A mark may seem to be there that is not, as neither side has its digits. Callers look for the
    # mark itself in a line.
    bare_text = text.encode("utf-8", "surrogatepass").translate(None, b"0123456789")
    lines = b"\n".join(set(bare_text.split(b"\n")))
    return lambda mark: _without_digits(mark) in lines


@cache
def _without_digits(mark: str) -> bytes:
    return mark.encode().translate(None, b"0123456789")


def count_unread(text: str) -> int:
    """Count the lines with decimals that are no version, no address and no time."""
    return len(_UNREAD.findall(text)) if "." in text else 0


def looks_unread(line: str) -> bool:
    """Return True if `count_unread` counts this line."""
    return _UNREAD.search(line) is not None
