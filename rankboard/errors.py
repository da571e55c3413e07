"""The errors of this interface. Each has fields; the text is for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """What is wrong in what was asked for."""

    flag: str = ""
    """The flag, such as `--model`, which is the keyword `model`; "" if it is about several."""
    value: str = ""
    """What was given; "" if the flag alone is wrong."""
    problem: str = ""
    """What is wrong; "" if the hint says it all."""
    hint: str = ""
    """What to write instead."""

    def __str__(self) -> str:
        given_words = f"{self.flag} {self.value}".strip()
        return ": ".join(filter(None, (given_words, self.problem, self.hint)))


class RankboardError(Exception):
    """Any error of this interface."""


class RefusedError(RankboardError):
    """What was asked for is wrong: nothing was started."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


class CommandError(RankboardError):
    """A command of rankboard has ended without a result."""

    def __init__(self, words: Sequence[str], exit_code: int, messages: Sequence[str]) -> None:
        head = f"rankboard {' '.join(words)}: exit code {exit_code}"
        super().__init__("\n".join([head, *messages]))
        self.words = tuple(words)
        """The words of the command, after `rankboard`."""
        self.exit_code = exit_code
        """As the help of the command lists them; negative if a signal has ended the command."""
        self.messages = tuple(messages)
        """The lines that it printed for people."""


class WaitTimeout(RankboardError, TimeoutError):
    """A run has not ended within the time that was given. It goes on."""

    def __init__(self, run: str, seconds: float) -> None:
        super().__init__(f"{run} has not ended after {seconds:g} s; it goes on")
        self.run = run
        self.seconds = seconds
