"""Command lines of Python: `python -u train.py --lr 0.1`. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

FILE = "file"
MODULE = "module"
_PYTHON = re.compile(r"python[\d.]*t?")
_VALUE = "WX"
"""Options that take a value, also as the next word."""
_LONG = "--check-hash-based-pycs"
"""The only long option that does."""


@dataclass(frozen=True)
class PythonLine:
    """A command line of Python."""

    interpreter: str
    """The first word; "" if the line begins with `-m` or a file."""
    options: tuple[str, ...]
    """Those of Python, one each: `-u`, `-Xdev`."""
    kind: str
    """FILE or MODULE: what it runs."""
    name: str
    """The name of that; "" if it runs other code."""
    rest: tuple[str, ...]
    """The arguments of that."""


def python_line(words: Sequence[str]) -> PythonLine | None:
    """Read a command line of Python; None if the words start none."""
    rest = list(words)
    options = list[str]()
    is_named = bool(rest) and _PYTHON.fullmatch(posixpath.basename(rest[0]))
    if not is_named and not (rest and (rest[0] == "-m" or rest[0].endswith(".py"))):
        return None
    interpreter = rest.pop(0) if is_named else ""

    def made(kind: str, name: str) -> PythonLine:
        return PythonLine(interpreter, tuple(options), kind, name, tuple(rest))

    while rest and rest[0].startswith("-") and rest[0] not in ("-", "--"):
        word = rest.pop(0)
        if word.startswith("--"):
            options.append(word)
            del rest[: word == _LONG]
            continue
        for end, letter in enumerate(word[1:], 2):
            if letter not in f"{_VALUE}mc":
                options.append(f"-{letter}")
                continue
            value = word[end:] or (rest.pop(0) if rest else "")
            if letter == "m":
                return made(MODULE, value)
            if letter == "c":
                return made(FILE, "")
            options.append(f"-{letter}{value}")
            break
    del rest[: rest[:1] == ["--"]]
    name = rest.pop(0) if rest else ""
    return made(FILE, "" if name == "-" else name)
