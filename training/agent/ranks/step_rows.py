"""Takes the steps out of what ranks write: the rows of one read become one `StepBlock`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from training.wire.events import PREFIX, WORKER, Event
from training.wire.host_events import OutputText
from training.wire.step_block import (
    MOST_STEPS,
    STEP_ROW,
    decode_row,
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
    if _ROW_LINE not in output.text and _WORKER_ROW_LINE not in output.text:
        yield output
        return
    gatherer = _Gatherer(output)
    for line in output.text.split("\n"):
        yield from gatherer.take_line(line)
    yield from gatherer.take_all()


class _Gatherer:
    def __init__(self, output: OutputText) -> None:
        self._output = output
        self._lines_of_ranks = defaultdict[int, list[str]](list)
        self._rows_of_ranks = defaultdict[int, list[bytes]](list)
        self._other_lines: list[str] = []
        self._has_event = False

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
        rows.append(row)
        self._lines_of_ranks[rank].append(line)
        if len(rows) == MOST_STEPS:
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
        if line.startswith(_ROW_LINE):
            row = decode_row(line[len(_ROW_LINE) :])
            return row if row and rank_of_row(row) == self._output.rank else None
        if line.startswith(_WORKER_ROW_LINE):
            return decode_row(line[len(_WORKER_ROW_LINE) :])
        return None

    def _take_blocks(self) -> Iterator[Event]:
        for rank, rows in self._rows_of_ranks.items():
            try:
                yield pack_rows(rows)
            except ValueError:  # a number is no possible one: then they are shown as they are
                yield self._with_lines(self._lines_of_ranks[rank])
        self._rows_of_ranks.clear()
        self._lines_of_ranks.clear()

    def _with_lines(self, lines: list[str]) -> OutputText:
        return OutputText(self._output.rank, self._output.stream, "\n".join(lines))
