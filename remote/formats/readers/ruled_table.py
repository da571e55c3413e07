"""Tables with a row for each epoch or so, between bars: `| Epoch | Training Loss |`."""

from __future__ import annotations

import re
from contextlib import suppress

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.patterns import LazyRegex, NameTable
from remote.formats.reading import UNDERSTOOD, Reading
from remote.formats.step_counter import StepCounter, reports_progress

_ROW = LazyRegex(r"\|(?:[^|\n]{1,80}\|){2,40}")
_COUNTERS = LazyRegex(r"(?:epoch|step|iter(?:ation)?|batch)$", re.IGNORECASE)


class RuledTable:
    """Reads the rows below a header whose first column says where the training is."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._names = NameTable(log_format.names)
        self._counter = StepCounter()
        self._columns: list[str] = []

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        # The prefixes of a line may end behind its first bar.
        row = _ROW.fullmatch(line.strip())
        if row is None:
            return None
        cells = [cell.strip() for cell in row[0].strip("|").split("|")]
        if _COUNTERS.match(cells[0]) is not None:
            self._columns = cells
            return UNDERSTOOD
        if len(cells) != len(self._columns):
            return None
        values: dict[str, float] = {}
        for column, cell in zip(self._columns, cells, strict=True):
            with suppress(ValueError):  # not every cell is a number
                self._names.add(values, column, cell)
        return self._counter.reading(values, memory) if reports_progress(values) else None
