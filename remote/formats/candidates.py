"""Which lines of a text may tell something. Looking at each line costs more than the few passes
over the whole text that find them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

_DECIMAL = re.compile(r"\.(?<=\d\.)(?=\d)[^\n]*")
_WORDS = (
    *("nan", "inf", "e-0", "loss", "Loss", "reward", "acc", "Acc", "step=", "[batch=", "batch="),
    *("poch ", "Num Epochs = ", "Total optimization", "--------------------", "-____-", "all   "),
    *("Testing", "Test", "tel:", "%|", ":::MLLOG", 'step": ', "step': "),
)
"""What a line has in it that tells something without a number with decimals, or begins a table."""


@cache
def _bare(mark: str) -> bytes:
    return mark.encode().translate(None, b"0123456789")


def finder(text: str) -> Callable[[str], bool]:
    """What tells whether a mark may be in the text.

    It looks at the lines without their digits, each once: that costs little, as programs print many
    lines that differ by numbers alone.
    """
    bare = text.encode("utf-8", "surrogatepass").translate(None, b"0123456789")
    lines = b"\n".join(set(bare.split(b"\n")))
    return lambda mark: _bare(mark) in lines


def candidates(text: str) -> list[int]:
    """Where the lines begin that may tell something."""
    find = text.rfind
    starts = {find("\n", 0, found.start()) + 1 for found in _DECIMAL.finditer(text)}
    starts.update(starts_of(text, filter(finder(text), _WORDS)))
    return sorted(starts)


def starts_of(text: str, marks: Iterable[str]) -> list[int]:
    """Where the lines begin that have one of the marks in them."""
    starts: set[int] = set()
    find = text.find
    back = text.rfind
    for mark in dict.fromkeys(marks):
        at = find(mark)
        while at >= 0:
            starts.add(back("\n", 0, at) + 1)
            stop = find("\n", at + 1)
            at = find(mark, stop + 1) if stop >= 0 else -1
    return sorted(starts)
