"""Regular expressions of log lines, with short forms for numbers, and what their groups mean.

`<loss>` is a number of this name, `<step:int>` a whole number, `<tokens:commas>` a number with
commas between thousands. `<num>`, `<int>` and `<commas>` have no name, nor has `<quantity>`,
which may end in % or in a letter such as k. A name may end in a unit: `<step_seconds__ms>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
# A group that is written out, `(?P<loss>`, is no short form.
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
        # Python asks `__getattr__` only for what an object lacks, so next time it finds this
        # directly.
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

    def add(self, values: dict[str, float], printed: str, value: str | float) -> None:
        """Add a value under its normalised name. The first value of a name counts. Raises:
        ValueError."""
        name, factor = self(printed)
        if name is not NEVER and name not in values:
            values[name] = number(value) * factor


class Pairs:
    """Names with values. `pattern` matches one of them: its first group is the name, its last one
    the value."""

    def __init__(self, pattern: str, own_names: Mapping[str, str] | None = None) -> None:
        self._regex = LazyRegex(pattern)
        self._names = NameTable(own_names)

    def add_to(self, values: dict[str, float], text: str) -> None:
        """Add the pairs in a text. Raises: ValueError."""
        for groups in self._regex.findall(text):
            self._names.add(values, groups[0], groups[-1])


class LinePattern:
    """One kind of line, as a pattern.

    Each named group is a value, or a place of `remote.formats.names`. The group `pairs` is a text
    with pairs; without one, the whole line is. The groups `name` and `value` are a pair of their
    own. The group `columns` has the names of what the group `cells` of later lines has. A pattern
    that begins with `^` matches behind the prefixes of a line (times, ranks, hosts); any other one
    may match anywhere in the line.
    """

    def __init__(
        self, pattern: str, pairs: str = "", own_names: Mapping[str, str] | None = None
    ) -> None:
        # `^` must go: for `match` with a start it still means the beginning of the line, where the
        # prefixes are.
        self.is_anchored = pattern.startswith("^")
        self._pattern = pattern.removeprefix("^")
        self._pairs = Pairs(pairs, own_names) if pairs else None
        self._names = NameTable(own_names)

    @cached_property
    def regex(self) -> Any:
        """Compile the expression."""
        return re.compile(expand(self._pattern), re.MULTILINE)

    @cached_property
    def _groups(self) -> list[tuple[str, str, float]]:
        """The names of the groups that are a value or a place, and what each means."""
        return [
            (group, *split_unit(group))
            for group in self.regex.groupindex
            if group not in ("pairs", "name", "value", "columns", "cells")
        ]

    def find(self, line: str, start: int) -> Any:
        """Return the match in a line whose prefixes end at `start`, or None."""
        return self.regex.match(line, start) if self.is_anchored else self.regex.search(line)

    def values(
        self, line: str, start: int, columns: list[str] | None = None
    ) -> dict[str, float] | None:
        """Return values and places of a line whose prefixes end at `start`, None if it is none of
        these lines. `columns` are those of a header before, which a header replaces. Raises:
        ValueError, if a number in it is none."""
        match = self.find(line, start)
        if match is None:
            return None
        texts = match.groupdict()
        values: dict[str, float] = {}
        for group, name, factor in self._groups:
            text = texts[group]
            if text is not None:
                values[name] = number(text) * factor
        if columns is not None and "columns" in texts:
            columns[:] = texts["columns"].split()
        if "cells" in texts and not self._add_cells(values, columns or [], texts["cells"].split()):
            return None
        if "name" in texts:
            self._names.add(values, texts["name"], texts["value"])
        if self._pairs is not None:
            self._pairs.add_to(values, texts.get("pairs", line))
        return values

    def _add_cells(
        self, values: dict[str, float], columns: Sequence[str], cells: Sequence[str]
    ) -> bool:
        """Add the cells of a row. Return False if they are not those of the columns."""
        if len(cells) != len(columns):
            return False
        for column, cell in zip(columns, cells, strict=True):
            with suppress(ValueError):  # not every cell is a number
                self._names.add(values, column, cell)
        return True
