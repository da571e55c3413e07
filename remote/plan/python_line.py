"""Command lines of Python: `python -u train.py --lr 0.1`. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from msgspec import Struct

FILE = "file"
MODULE = "module"
_PYTHON = re.compile(r"python[\d.]*t?")
_VALUE = "WX"
"""Options that take a value, also as the next word."""
_LONG = "--check-hash-based-pycs"
"""The only long option that does."""


class PythonLine(Struct, frozen=True):
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
    remaining_words = list(words)
    options = list[str]()
    is_named = bool(remaining_words) and _PYTHON.fullmatch(posixpath.basename(remaining_words[0]))
    if not is_named and not (
        remaining_words and (remaining_words[0] == "-m" or remaining_words[0].endswith(".py"))
    ):
        return None
    interpreter = remaining_words.pop(0) if is_named else ""

    def make_line(program_kind: str, name: str) -> PythonLine:
        return PythonLine(interpreter, tuple(options), program_kind, name, tuple(remaining_words))

    while (
        remaining_words
        and remaining_words[0].startswith("-")
        and remaining_words[0] not in ("-", "--")
    ):
        option_word = remaining_words.pop(0)
        if option_word.startswith("--"):
            options.append(option_word)
            del remaining_words[: option_word == _LONG]
            continue
        # Letters may stand together, as in `-uW error`; the first one that takes a value ends
        # them.
        for value_start, option_letter in enumerate(option_word[1:], 2):
            if option_letter not in f"{_VALUE}mc":
                options.append(f"-{option_letter}")
                continue
            option_value = option_word[value_start:] or (
                remaining_words.pop(0) if remaining_words else ""
            )
            if option_letter == "m":
                return make_line(MODULE, option_value)
            if option_letter == "c":
                return make_line(FILE, "")
            options.append(f"-{option_letter}{option_value}")
            break
    # `--` ends the options and is no program.
    del remaining_words[: remaining_words[:1] == ["--"]]
    name = remaining_words.pop(0) if remaining_words else ""
    return make_line(FILE, "" if name == "-" else name)
