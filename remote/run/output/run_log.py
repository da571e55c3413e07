"""The last lines of a run, and the narration among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from sys import getsizeof

from remote.limits import Limits
from remote.run.output.log_levels import is_routine, may_be_routine
from remote.run.state.types import LogLine
from remote.sanitise import shortened

LINES = 20_000
"""Lines of the run that stay in memory; the run directory has all."""
NOTES = 1_000
"""Lines of narration that stay in memory."""
_number = attrgetter("number")


class Log:
    """`count` is how many lines there were, `lines` are the last ones that are news, `routine` the
    last ones that are not, see `is_routine`: so these never push out those. `notes` is the
    narration.

    `own`: rankboard's own ranks print them; only then any is routine.
    """

    def __init__(self, limits: Limits, *, own: bool = False) -> None:
        self._limits = limits
        self._own = own
        self.lines: deque[LogLine] = deque(maxlen=LINES)
        self.routine: deque[LogLine] = deque(maxlen=LINES)
        self.count = 0
        self.notes: deque[LogLine] = deque(maxlen=NOTES)
        # Of what `lines` holds: the number after a part of it, and the size of the part.
        self._parts: deque[tuple[int, int]] = deque()
        self._size = 0

    def add(self, when: float, host: str, rank: int, stream: str, text: str) -> Sequence[str]:
        """Take in what a rank, or (-1) its host, printed. Returns its lines as they are shown."""
        lines, size = shortened(text, self._limits.shown)
        skipped = max(0, len(lines) - LINES)
        sort = self._own and rank >= 0 and may_be_routine(text)
        made = [
            LogLine(number, when, host, rank, stream, line, sort and is_routine(line))
            for number, line in enumerate(lines[skipped:], self.count + skipped)
        ]
        self.count += len(lines)
        if sort:
            self.routine.extend(line for line in made if line.routine)
            made = [line for line in made if not line.routine]
            size = sum(getsizeof(line.text) for line in made)
        if made:
            self.lines.extend(made)
            self._bound(size)
        return lines

    def since(self, number: int) -> list[LogLine]:
        """The lines of this number and after it that are kept, in order."""
        most = max(0, self.count - number)
        news = [one for one in islice(reversed(self.lines), most) if one.number >= number]
        routine = [one for one in islice(reversed(self.routine), most) if one.number >= number]
        return sorted(news + routine, key=_number) if routine else news[::-1]

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
