"""Keeps what happened in a run that charts mark: by step and by time."""

from __future__ import annotations

from msgspec import Struct

MOST = 1024
"""Marks of one kind; of more, every second one is kept, and of those that follow."""
EPOCH = "E"
TEST = "T"
CHECKPOINT = "C"
RESTART = "R"
STALL = "S"
REACHED = (EPOCH, TEST, CHECKPOINT)
"""The marks of what comes anew after a restart, and else only once at a step."""
KINDS = {
    EPOCH: "epoch",
    TEST: "test",
    CHECKPOINT: "checkpoint",
    RESTART: "restart",
    STALL: "stall",
}
"""The letters, and what they stand for."""


class Mark(Struct, frozen=True):
    """Something happened after `step`, `time` seconds after the run began."""

    letter: str
    step: int
    time: float


class Marks:
    """The marks of a run, in order."""

    def __init__(self) -> None:
        self._by_letter: dict[str, list[Mark]] = {letter: [] for letter in KINDS}
        self.strides = dict.fromkeys(KINDS, 1)
        """Each n-th mark is kept, by letter."""
        self._skipped: dict[str, list[int]] = {letter: [] for letter in KINDS}
        """The steps of those that came after the last one that is kept."""

    def add(self, letter: str, step: int, time: float) -> None:
        """Add a mark, unless one of its kind has come for this step."""
        marks = self._by_letter[letter]
        skipped = self._skipped[letter]
        steps_seen = [mark.step for mark in marks[-1:]] + skipped
        if steps_seen and letter in REACHED:
            # All ranks report the end of an epoch, and one may report several before another does.
            is_known = step <= steps_seen[-1]
        else:
            # Two restarts from one step are two.
            is_known = step in steps_seen[-1:] and letter != RESTART
        if is_known:
            return
        if marks and len(skipped) + 1 < self.strides[letter]:
            skipped.append(step)
            return
        marks.append(Mark(letter, step, time))
        skipped.clear()
        if len(marks) > MOST:
            # From the second on: the first one, such as the start, stays.
            del marks[1::2]
            self.strides[letter] *= 2

    def rewind(self, step: int) -> None:
        """Forget what was reached behind this step: it comes anew."""
        for letter in REACHED:
            self._by_letter[letter] = [
                mark for mark in self._by_letter[letter] if mark.step <= step
            ]
            self._skipped[letter] = [other for other in self._skipped[letter] if other <= step]

    def all(self) -> list[Mark]:
        """Return all marks, by kind."""
        return [mark for marks in self._by_letter.values() for mark in marks]
