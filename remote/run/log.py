"""The last lines of a run, and the narration among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from remote.limits import Limits
from remote.sanitise import shortened

LINES = 20_000
"""Lines of the run that stay in memory; the run directory has all."""
NOTES = 1_000
"""Lines of narration that stay in memory."""


class LogLine(NamedTuple):
    """One line for the log pane. `number` counts all lines of the run from 0; `rank` is -1 for
    hosts and the session.

    `stream` is `stdout`, `stderr`, or `note` for narration.
    """

    number: int
    time: float
    host: str
    rank: int
    stream: str
    text: str


class Log:
    """`lines` are the last ones, `count` is how many there were; `notes` is the narration."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.lines: deque[LogLine] = deque(maxlen=LINES)
        self.count = 0
        self.notes: deque[LogLine] = deque(maxlen=NOTES)
        # Of what `lines` holds: the number after a part of it, and the size of the part.
        self._parts: deque[tuple[int, int]] = deque()
        self._size = 0

    def add(self, when: float, host: str, rank: int, stream: str, text: str) -> Sequence[str]:
        """Take in what a rank, or (-1) its host, printed. Returns its lines as they are shown."""
        lines, size = shortened(text, self._limits.shown)
        skipped = max(0, len(lines) - LINES)
        first = self.count + skipped
        self.lines.extend(
            LogLine(first + index, when, host, rank, stream, line)
            for index, line in enumerate(lines[skipped:])
        )
        self.count += len(lines)
        self._bound(size)
        return lines

    def note(self, when: float, host: str, text: str) -> None:
        """Add narration about a host, or ("") the run."""
        text = text.removeprefix(f"{host}: ") if host else text
        lines, size = shortened(text, self._limits.shown)
        for line in lines:
            note = LogLine(self.count, when, host, -1, "note", line)
            self.count += 1
            self.lines.append(note)
            self.notes.append(note)
        self._bound(size)

    def _bound(self, size: int) -> None:
        """Forget the oldest lines beyond the limit in bytes. `size`: of what was added last."""
        self._parts.append((self.count, size))
        self._size += size
        while len(self._parts) > 1 and self._is_over():
            end, size = self._parts.popleft()
            self._size -= size
            while self.lines[0].number < end:
                self.lines.popleft()

    def _is_over(self) -> bool:
        """Whether the oldest part is too much, or is forgotten already."""
        return self._size > self._limits.log or self._parts[0][0] <= self.lines[0].number
