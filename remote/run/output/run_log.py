"""Keeps the last lines of a run, and the remarks among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from sys import getsizeof

from remote.limits import Limits
from remote.run.output.log_levels import is_routine, may_be_routine
from remote.run.state.host_state import strip_host_name
from remote.run.state.types import LogLine
from remote.sanitise import shortened

LINES = 20_000
"""Lines of the run that stay in memory; the run directory has all."""
NOTES = 1_000
"""Remarks that stay in memory."""
_number = attrgetter("number")


class RunLog:
    """The last lines of a run. `is_job`: rankboard's own ranks print them; only then any is
    routine."""

    def __init__(self, limits: Limits, *, is_job: bool = False) -> None:
        self._limits = limits
        self._is_job = is_job
        self.lines = deque[LogLine]()
        """Those that are news. Routine lines are apart, so that they never push these out."""
        self.routine: deque[LogLine] = deque(maxlen=LINES)
        """Those that are not, see `is_routine`."""
        self.count = 0
        """How many lines there were in all."""
        self.notes: deque[LogLine] = deque(maxlen=NOTES)
        """The remarks."""
        self._size = 0
        """The bytes of `lines`."""

    def add(self, when: float, host: str, rank: int, stream: str, text: str) -> Sequence[str]:
        """Take in what a rank, or (-1) its host, printed. Return its lines as they are shown."""
        shown_lines = shortened(text, self._limits.shown)
        # A line that would be forgotten at once is not worth an object.
        num_skipped = max(0, len(shown_lines) - LINES)
        has_routine = self._is_job and rank >= 0 and may_be_routine(text)
        new_lines = [
            LogLine(number, when, host, rank, stream, line, has_routine and is_routine(line))
            for number, line in enumerate(shown_lines[num_skipped:], self.count + num_skipped)
        ]
        self.count += len(shown_lines)
        if has_routine:
            self.routine.extend(line for line in new_lines if line.routine)
            new_lines = [line for line in new_lines if not line.routine]
        self._append(new_lines)
        return shown_lines

    def since(self, number: int) -> list[LogLine]:
        """Return the lines of this number and after it that are kept, in order."""
        # The newest lines lie at the end: no more than so many of them can have these numbers.
        max_lines = max(0, self.count - number)
        new_lines = [
            line for line in islice(reversed(self.lines), max_lines) if line.number >= number
        ]
        routine_lines = [
            line for line in islice(reversed(self.routine), max_lines) if line.number >= number
        ]
        return sorted(new_lines + routine_lines, key=_number) if routine_lines else new_lines[::-1]

    def add_epoch(self, when: float, line: str) -> None:
        """Add the line of an epoch of all ranks."""
        self._append([LogLine(self.count, when, "", -1, "epoch", line)])
        self.count += 1

    def note(
        self, when: float, host: str, text: str, *, is_minor: bool = False, is_cause: bool = False
    ) -> None:
        """Add a remark about a host, or ("") the run; it is routine if it `is_minor`: a strip or
        a table tells it as well. It `is_cause` if the run has failed of it."""
        stream = "cause" if is_cause else "note"
        shown_lines = shortened(strip_host_name(text, host), self._limits.shown)
        note_lines = [
            LogLine(number, when, host, -1, stream, line, is_minor)
            for number, line in enumerate(shown_lines, self.count)
        ]
        self.count += len(note_lines)
        self.notes.extend(note_lines)
        if is_minor:
            self.routine.extend(note_lines)
        else:
            self._append(note_lines)

    def _append(self, lines: Sequence[LogLine]) -> None:
        """Add lines that are news, and forget the oldest beyond the limits."""
        self.lines.extend(lines)
        # The object, not the text: of short lines its head is most of what they take.
        self._size += sum(getsizeof(line.text) for line in lines)
        while self.lines and (len(self.lines) > LINES or self._size > self._limits.log):
            self._size -= getsizeof(self.lines.popleft().text)
