"""Compile regular expressions that take time in proportion to the text, whatever the text is.

They are those of RE2. Python's own `re` tries one way to match after the other, and a rule that a
user has written in good faith may have more ways than can be tried: `(\\w+\\s?)+` takes minutes for
a word of 40 letters, and holds the interpreter meanwhile. RE2 follows all ways at once. In return
it neither looks ahead or behind, nor compares with an earlier group. It takes no time-out, so what
is read does not depend on how busy the machine is, and it releases the interpreter while it works.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

LONGEST = 2_048
"""Characters of a line that are looked at."""
MEMORY = 1 << 19
"""Bytes that an expression may take when it is compiled. A larger one could take more than 0.1 s
for a line of this length."""


class UnknownExpression(ValueError):
    """RE2 does not compile an expression."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def compile_linear(pattern: str) -> Any:
    """Compile an expression; the result has the methods of one that `re` has compiled. Raises:
    UnknownExpression."""
    regex = _compile(pattern)
    if isinstance(regex, str):
        raise UnknownExpression(regex)
    return regex


@lru_cache(256)
def _compile(pattern: str) -> Any:
    """Compile an expression, or return what is wrong with it. A cache would not remember an error
    that is raised."""
    import re2  # here, as most commands run no rule

    options = re2.Options()
    options.max_mem = MEMORY
    # RE2 would write them to stderr by itself, next to the reason that we show.
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "it has half of a surrogate pair, which is no character"
