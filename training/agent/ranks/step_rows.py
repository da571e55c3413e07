"""Takes the steps out of what ranks write: the rows of one read become one `StepBlock`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from training.wire.events import PREFIX, WORKER, Event
from training.wire.host_events import OutputText
from training.wire.step_block import (
    MOST_STEPS,
    ROW_BYTES,
    STEP_ROW,
    decode_rows,
    pack_rows,
    rank_of_row,
)

_ROW_LINE = PREFIX + STEP_ROW
_WORKER_ROW_LINE = PREFIX + WORKER + STEP_ROW


def gather_steps(output: OutputText) -> Iterator[Event]:
    """Yield the steps of each rank in a text as `StepBlock`, and the other lines.

    Events stay in order. Lines that are no event come after the steps between the same two events:
    a rank that prints a line at every tenth step would otherwise have ten steps in a block.
    """
    if STEP_ROW not in output.text or output.path:
        yield output
        return
    gatherer = _Gatherer(output)
    if not gatherer.take_only_rows():
        for line in output.text.split("\n"):
            yield from gatherer.take_line(line)
    yield from gatherer.take_all()


class _Gatherer:
    """Takes in the lines of a text; those of one rank, or of the workers of its program."""

    def __init__(self, output: OutputText) -> None:
        self._output = output
        self._rows_of_ranks = defaultdict[int, bytearray](bytearray)
        self._row_lines = defaultdict[int, list[str]](list)
        self._other_lines: list[str] = []
        self._has_event = False

    def take_only_rows(self) -> bool:
        """Take in all lines at once, and return True, if they are rows of the rank."""
        text = self._output.text
        if not text.startswith(_ROW_LINE):
            return False
        rows = decode_rows(text[len(_ROW_LINE) :].replace(f"\n{_ROW_LINE}", ""))
        if rows is None or len(rows) > MOST_STEPS * ROW_BYTES:
            return False
        # All are of the same rank, or cannot be packed.
        if rank_of_row(rows) != self._output.rank:
            return False
        self._rows_of_ranks[self._output.rank] += rows
        self._row_lines[self._output.rank] = [text]
        return True

    def take_line(self, line: str) -> Iterator[Event]:
        """Take in the next line. Yield what must come before it."""
        row = self._read_row(line)
        if row is None:
            is_event = line.startswith(PREFIX)
            if is_event and not self._has_event:
                yield from self._take_blocks()
            self._has_event = self._has_event or is_event
            self._other_lines.append(line)
            return
        if self._has_event:
            yield from self.take_all()
        rank = rank_of_row(row)
        rows = self._rows_of_ranks[rank]
        rows += row
        self._row_lines[rank].append(line)
        if len(rows) == MOST_STEPS * ROW_BYTES:
            yield from self._take_blocks()

    def take_all(self) -> Iterator[Event]:
        """Yield the steps so far, then the other lines."""
        yield from self._take_blocks()
        if self._other_lines:
            yield self._with_lines(self._other_lines)
            self._other_lines = []
        self._has_event = False

    def _read_row(self, line: str) -> bytes | None:
        """Return the row in a line; None if there is none, or that of another rank."""
        is_workers = line.startswith(_WORKER_ROW_LINE)
        if not (is_workers or line.startswith(_ROW_LINE)):
            return None
        row = decode_rows(line[len(_WORKER_ROW_LINE if is_workers else _ROW_LINE) :])
        if row is None or len(row) != ROW_BYTES:
            return None
        return row if is_workers or rank_of_row(row) == self._output.rank else None

    def _take_blocks(self) -> Iterator[Event]:
        for rank, rows in self._rows_of_ranks.items():
            try:
                yield pack_rows(bytes(rows))
            except ValueError:  # a number is no possible one: then they are shown as they are
                yield self._with_lines(self._row_lines[rank])
        self._rows_of_ranks.clear()
        self._row_lines.clear()

    def _with_lines(self, lines: list[str]) -> OutputText:
        return OutputText(self._output.rank, self._output.stream, "\n".join(lines))
