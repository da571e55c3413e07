"""Formats whose values stand below a header."""

from __future__ import annotations

from remote.formats.format import Lazy, Line, Matcher, Names
from remote.formats.memory import Memory
from remote.formats.names import NEVER
from remote.formats.numbers import number
from remote.formats.reading import EVALUATION, OTHER, STEP, UNDERSTOOD, Kind, Reading


class Headed:
    """A header that tells the step, then a line for each value.

    A value is told at once, as one of the header's step; values of one text are joined. A header
    with `evaluates` in it is one of an evaluation.
    """

    def __init__(
        self,
        header: str,
        value: str,
        names: Names | None = None,
        evaluates: str = "\n",
    ) -> None:
        self.open = False
        self._header = Line(header, STEP)
        self._value = Matcher(value)
        self._names = names or Names()
        self._evaluates = evaluates
        self._place: dict[str, float] = {}
        self._kind: Kind = STEP

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        place = self._header.values(line, start)
        if place is not None:
            self.open = True
            self._place = place
            self._kind = EVALUATION if self._evaluates in line else STEP
            return UNDERSTOOD
        if not self.open:
            return None
        found = self._value.find(line, start if self._value.anchored else 0)
        if found is None:
            self.open = False
            return None
        name, factor = self._names(found[1])
        if name is NEVER:
            return UNDERSTOOD
        value = number(found[2]) * factor
        return memory.place(self._kind, self._place | {name: value})


class Framed:
    """A table in a frame of dashes, as Stable-Baselines3 prints it: one table is one step."""

    _row = Lazy(r"\|\s{0,4}(\s?)([\w/.@-]{1,60})\s{0,60}\|\s{0,20}([^|\n]{0,40})\|")

    def __init__(self, names: Names) -> None:
        self.open = False
        self._names = names
        self._group = ""
        self._values: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        text = line.strip()
        if len(text) > 8 and not text.strip("-"):
            return self._frame(memory)
        if not self.open:
            return None
        row = self._row.fullmatch(text)
        if row is None:
            self.open = False
            return None
        self._take(row[2], row[3].strip())
        return UNDERSTOOD

    def _frame(self, memory: Memory) -> Reading | None:
        """The beginning or the end of a table."""
        values = self._values
        self._values = {}
        self.open = not (self.open and values)
        if not values:
            return UNDERSTOOD
        if "step" not in values:
            return memory.place(OTHER, values)
        evaluates = "loss" not in values and any(name.startswith("val_") for name in values)
        return memory.place(EVALUATION if evaluates else STEP, values)

    def _take(self, name: str, value: str) -> None:
        if not value:
            self._group = name if name.endswith("/") else f"{name}/"
            return
        known, factor = self._names(f"{self._group}{name}")
        try:
            if known is not NEVER:
                self._values[known] = number(value) * factor
        except ValueError:
            return
