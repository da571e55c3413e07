"""Tables in a frame of dashes, as Stable-Baselines3 prints them."""

from __future__ import annotations

from contextlib import suppress

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.patterns import LazyRegex, NameTable
from remote.formats.reading import EVALUATION, OTHER, STEP, UNDERSTOOD, Reading

_ROW = LazyRegex(r"\|\s{0,4}(\s?)([\w/.@-]{1,60})\s{0,60}\|\s{0,20}([^|\n]{0,40})\|")
_SHORTEST_FRAME = 9


class FramedTable:
    """Reads a table as one step."""

    def __init__(self, log_format: LogFormat) -> None:
        self.open = False
        self._names = NameTable(log_format.names)
        self._group = ""
        self._values: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        text = line.strip()
        if len(text) >= _SHORTEST_FRAME and not text.strip("-"):
            return self._begin_or_end(memory)
        if not self.open:
            return None
        row = _ROW.fullmatch(text)
        if row is None:
            self.open = False
            return None
        self._add_row(row[2], row[3].strip())
        return UNDERSTOOD

    def _begin_or_end(self, memory: Memory) -> Reading | None:
        values = self._values
        self._values = {}
        # The frame below one table may be the frame above the next one.
        self.open = not (self.open and values)
        if not values:
            return UNDERSTOOD
        if "step" not in values:
            return memory.place(OTHER, values)
        if "loss" not in values and any(name.startswith("val_") for name in values):
            return memory.place(EVALUATION, values)
        return memory.place(STEP, values)

    def _add_row(self, name: str, value: str) -> None:
        if not value:  # a heading, such as "time/"
            self._group = name if name.endswith("/") else f"{name}/"
            return
        with suppress(ValueError):  # not every value is a number
            self._names.add(self._values, f"{self._group}{name}", value)
