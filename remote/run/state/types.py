"""The facts that several rooms of a run share, as values with fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from remote.format import ranks_text


@dataclass(frozen=True, slots=True)
class MissingVariable:
    """The environment has no variable of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class MissingOptions:
    """The command line has none of these options, each with all its names: `-r`, `--rank`."""

    options: tuple[tuple[str, ...], ...]


Lack = MissingVariable | MissingOptions


class Evidence(IntEnum):
    """How much a death says about its cause, the strongest first."""

    KILLED = 0
    """A signal, the kernel's OOM killer, a lost host or a killed agent; we did not do it."""
    OWN = 1
    """An exception or an exit code that speaks of something else than communication."""
    WORDS = 2
    """An exception of its own in the last words of a rank that we stopped."""
    UNHEARD = 3
    """Nothing is known of a host."""
    ORDER = 4
    """Communication with the others broke: a victim, unless nothing else is known."""
    NONE = 5
    """It ended well, or we stopped it."""


@dataclass(frozen=True, slots=True)
class Death:
    """An end, of a rank or (`rank` -1) of a host, that may be the cause of the others. `time` is by
    the session's clock.

    `during` is what a rank that had made no step was at; `advice` what to do about it, where that
    can be said. `refused`: nothing had begun, and what was given cannot be used. `of_agent`: a rank
    said nothing, and the words are those of its agent. `lack` is what a user's own program says
    that it was not given.
    """

    host: str
    rank: int
    time: float
    evidence: Evidence
    what: str
    step: int = 0
    tail: tuple[str, ...] = ()
    refused: bool = False
    during: str = ""
    advice: str = ""
    of_agent: bool = False
    lack: Lack | None = None


@dataclass(frozen=True)
class Cause:
    """Why a run failed: what died first by evidence, where, and its last words. `rank` is -1 where
    it was no rank.

    `victims` failed as a consequence. `host` is empty where it was the session that refused.
    `during`, `advice`, `of_agent` and `lack` are as a `Death`'s.
    """

    host: str
    rank: int
    what: str
    step: int = 0
    tail: tuple[str, ...] = ()
    victims: tuple[int, ...] = ()
    during: str = ""
    advice: str = ""
    of_agent: bool = False
    lack: Lack | None = None

    def text(self) -> str:
        """All of it but the last words, in a line, such as "node2, rank 1: killed by SIGKILL at
        step 12; rank 0 failed as a consequence"."""
        where = f"{self.host}, rank {self.rank}" if self.rank >= 0 else self.host
        if self.what.startswith(
            (f"{where}:", f"{where}, ", f"{where} and ")
        ):  # a reason may name its hosts itself
            where = ""
        when = f" at step {self.step}" if self.step else f" while {self.during}" * bool(self.during)
        died = f"; {ranks_text(self.victims)} failed as a consequence" if self.victims else ""
        return f"{where}{': ' if where else ''}{self.what}{when}{died}"


@dataclass(frozen=True)
class Stall:
    """These ranks have made no step from `since` on.

    `text` says so, and once their stacks have come, for whom all wait: `culprits`. `explained`: all
    is known that will be. `over` is when they went on, 0 before.
    """

    ranks: tuple[int, ...]
    since: float
    seconds: float
    culprits: tuple[int, ...] = ()
    text: str = ""
    over: float = 0.0
    explained: bool = False


class LogLine(NamedTuple):
    """One line for the log pane. `number` counts all lines of the run from 0; `rank` is -1 for
    hosts and the session.

    `stream` is `stdout`, `stderr`, or `note` for narration. `routine`: see `is_routine`.
    """

    number: int
    time: float
    host: str
    rank: int
    stream: str
    text: str
    routine: bool = False
