"""Lines that patterns describe."""

from __future__ import annotations

from remote.formats.catalog import FormatLine, LogFormat
from remote.formats.derive import DERIVATIONS
from remote.formats.memory import Memory
from remote.formats.reading import STEP, UNDERSTOOD, Reading, ReadingKind


class LineReader:
    """Reads a line by the first of the patterns that matches it."""

    def __init__(self, log_format: LogFormat) -> None:
        self._format = log_format
        self.open = False
        self._header: dict[str, float] = {}
        self._header_kind: ReadingKind | None = STEP
        self._columns: list[str] = []
        self._kept: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        was_open = self.open
        self.open = was_open and self._format.stays_open
        for known_line in self._format.lines:
            # The pattern of a row fits many other lines too, so it counts only below its header.
            if known_line.mark not in line or (known_line.role == "row" and not was_open):
                continue
            columns = list(known_line.columns) or self._columns
            values = known_line.matcher.values(line, start, columns)
            if values is None:
                continue
            reading = self._reading(known_line, values, memory)
            if reading is not None:
                return reading
        return None

    def _reading(
        self, line: FormatLine, values: dict[str, float], memory: Memory
    ) -> Reading | None:
        if line.derive:
            derived = DERIVATIONS[line.derive](values, self._kept, memory)
            if not derived:
                return None if derived is None else UNDERSTOOD
            values = derived
        match line.role:
            case "values":
                return memory.place(line.reading_kind, values)
            case "header":
                self.open = True
                self._header = values
                self._header_kind = line.reading_kind
            case "row":
                self.open = True
                if values:
                    return memory.place(self._header_kind, self._header | values)
        return UNDERSTOOD
