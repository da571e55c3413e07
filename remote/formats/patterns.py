"""Regular expressions of log lines, with short forms for numbers, and what their groups mean.

`<loss>` is a number of this name, `<step:int>` a whole number, `<tokens:commas>` a number with
commas between thousands. `<num>`, `<int>` and `<commas>` have no name, nor has `<quantity>`,
which may end in % or in a letter such as k. A name may end in a unit: `<step_seconds__ms>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from remote.formats.names import NEVER, canonical
from remote.formats.numbers import GROUPED, NUMBER, number

UNITS = {"ms": 1e-3, "us": 1e-6, "percent": 1e-2, "min": 60.0}
"""Factors of the units that a name may end in."""
MAX_NAMES = 2_000
"""Names that a format remembers. A program that prints ever new names must not fill the memory."""
_NUMBERS = {
    "num": f"({NUMBER})",
    "int": r"(\d{1,18})",
    "commas": f"({GROUPED})",
    "quantity": f"((?:{GROUPED})[%kKMmBG]?)",
}
_SHORT_FORM = re.compile(r"(?<!\?P)<(\w+)(?::(\w+))?>")


def expand(pattern: str) -> str:
    """Write the short forms of a pattern out."""
    return _SHORT_FORM.sub(_expanded, pattern)


def _expanded(short_form: re.Match[str]) -> str:
    name, number_kind = short_form.groups()
    if name in _NUMBERS:
        return _NUMBERS[name]
    group = _NUMBERS[number_kind or "num"]
    return f"(?P<{name}>{group[1:]}"


def split_unit(name: str) -> tuple[str, float]:
    """Return a name without its unit, and the factor of the unit."""
    bare, _, unit = name.partition("__")
    return bare, UNITS.get(unit, 1.0)


class LazyRegex:
    """A pattern that is compiled when it is first used: most are never used, and compiling all of
    them takes a second."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` ask for special methods, which a compiled expression has not either.
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(re.compile(expand(self._pattern), self._flags), name)
        self.__dict__[name] = method
        return method


class NameTable:
    """The normalised names of what one format prints, see `remote.formats.names`. `own_names` come
    first: printed name to normalised name, which may end in a unit."""

    def __init__(self, own_names: Mapping[str, str] | None = None) -> None:
        self._own_names = dict(own_names or {})
        self._known: dict[str, tuple[str, float]] = {}

    def __call__(self, printed: str) -> tuple[str, float]:
        """Return the normalised name, and the factor into its unit."""
        known = self._known.get(printed)
        if known is not None:
            return known
        if printed in self._own_names:
            known = split_unit(self._own_names[printed])
        else:
            known = canonical(printed)
        if len(self._known) >= MAX_NAMES:  # cheaper than to forget the oldest
            self._known.clear()
        self._known[printed] = known
        return known


class Pairs:
    """Names with values. `pattern` matches one of them: its first group is the name, its last one
    the value."""

    def __init__(self, pattern: str, own_names: Mapping[str, str] | None = None) -> None:
        self._regex = LazyRegex(pattern)
        self._names = NameTable(own_names)

    def add_to(self, values: dict[str, float], text: str) -> None:
        """Add the pairs in a text. The first value of a name counts. Raises: ValueError."""
        for groups in self._regex.findall(text):
            name, factor = self._names(groups[0])
            if name is not NEVER and name not in values:
                values[name] = parse_number(groups[-1]) * factor


def parse_number(text: str) -> float:
    """Return the number of a text, see `number`. Raises: ValueError."""
    try:
        return float(text)
    except ValueError:
        return number(text)


class LinePattern:
    """One kind of line, as a pattern.

    Each named group is a value, or a place of `remote.formats.names`. The group `pairs` is a text
    with pairs; without one, the whole line is. The groups `name` and `value` are a pair of their
    own. A pattern that begins with `^` matches behind the prefixes of a line (times, ranks, hosts);
    any other one may match anywhere in the line.
    """

    def __init__(
        self, pattern: str, pairs: str = "", own_names: Mapping[str, str] | None = None
    ) -> None:
        self.is_anchored = pattern.startswith("^")
        self._pattern = pattern.removeprefix("^")
        self._pairs = Pairs(pairs, own_names) if pairs else None
        self._names = NameTable(own_names)

    @cached_property
    def regex(self) -> Any:
        """Compile the expression."""
        return re.compile(expand(self._pattern), re.MULTILINE)

    @cached_property
    def _find(self) -> Callable[[str, int], Any]:
        find: Callable[[str, int], Any] = (
            self.regex.match if self.is_anchored else self.regex.search
        )
        return find

    @cached_property
    def _groups(self) -> list[tuple[int, str, float]]:
        """The index, the name and the factor of each group that is a value or a place."""
        groups: list[tuple[int, str, float]] = []
        for name, index in self.regex.groupindex.items():
            if name not in ("pairs", "name", "value"):
                groups.append((index - 1, *split_unit(name)))
        return groups

    def find(self, line: str, start: int) -> Any:
        """Return the match in a line whose prefixes end at `start`, or None."""
        return self._find(line, start if self.is_anchored else 0)

    def values(self, line: str, start: int) -> dict[str, float] | None:
        """Return values and places of a line whose prefixes end at `start`, None if it is none of
        these lines. Raises: ValueError, if a number in it is none."""
        match = self._find(line, start if self.is_anchored else 0)
        if match is None:
            return None
        values: dict[str, float] = {}
        texts = match.groups()
        for index, name, factor in self._groups:
            text = texts[index]
            if text is not None:
                values[name] = parse_number(text) * factor
        if self._pairs is not None:
            has_group = "pairs" in self.regex.groupindex
            self._pairs.add_to(values, match["pairs"] if has_group else line)
        elif "name" in self.regex.groupindex:
            name, factor = self._names(match["name"])
            if name is not NEVER:
                values[name] = parse_number(match["value"]) * factor
        return values
