"""Keeps what happened in a run that charts mark: by step and by time."""

from __future__ import annotations

from msgspec import Struct

MOST = 1024
"""Marks of one kind; of more, every second one is kept."""
EPOCH = "E"
TEST = "T"
CHECKPOINT = "C"
RESTART = "R"
STALL = "S"
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

    def add(self, letter: str, step: int, time: float) -> None:
        """Add a mark, unless it is the same as the last of its kind."""
        marks = self._by_letter[letter]
        # All ranks report the end of an epoch; two restarts from one step are two.
        if marks and marks[-1].step == step and letter != RESTART:
            return
        marks.append(Mark(letter, step, time))
        if len(marks) > MOST:
            # From the second on: the first one, such as the start, stays.
            del marks[1::2]

    def rewind(self, step: int) -> None:
        """Forget what was reached behind this step: it comes anew."""
        for letter in (EPOCH, TEST, CHECKPOINT):
            self._by_letter[letter] = [
                mark for mark in self._by_letter[letter] if mark.step <= step
            ]

    def all(self) -> list[Mark]:
        """Return all marks, by kind."""
        return [mark for marks in self._by_letter.values() for mark in marks]
