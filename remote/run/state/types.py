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


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """The host has no GPU, without which this backend of torch.distributed does not work."""

    backend: str


@dataclass(frozen=True, slots=True)
class MissingTorch:
    """The Python that runs the script has no torch, or no torchvision."""

    package: str


Lack = MissingVariable | MissingOptions | MissingGpu | MissingTorch


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


@dataclass(frozen=True)
class Cause:
    """An end of a rank or a host, which may be the cause of all others.

    That of a run may be known while it still lives, before its verdict: other ranks get a moment
    for their last words, and these may change it.
    """

    host: str
    """Its name; "" if it was the session that refused."""
    rank: int
    """-1 for a host or the session."""
    problem: str
    """What happened, in words."""
    step: int = 0
    """The rank's last step."""
    tail: tuple[str, ...] = ()
    """Its last words."""
    victims: tuple[int, ...] = ()
    """The ranks that failed as a consequence, once it is the cause."""
    during: str = ""
    """What a rank that had made no step was doing."""
    advice: str = ""
    """What to do about it; "" if nothing is known."""
    of_agent: bool = False
    """The rank said nothing, and the last words are those of its agent."""
    lack: Lack | None = None
    """What a script says that it was not given."""
    time: float = 0.0
    """By the session's clock."""
    evidence: Evidence = Evidence.OWN
    refused: bool = False
    """Nothing had begun, and what was given cannot be used."""
    pid: int = 0
    """Of a worker that its program has started; else 0."""
    names_hosts: bool = False
    """`problem` begins with the names of its hosts."""
    may_be_later: bool = False
    """The rank may have made a few steps more, which it would report at the next one."""

    def text(self) -> str:
        """Return all of it but the last words, in a line.

        Such as "node2, rank 1: killed by SIGKILL at step 12; rank 0 followed".
        """
        if not self.victims:
            return self.culprit_text
        return f"{self.culprit_text}; {ranks_text(self.victims)} followed"

    @property
    def culprit_text(self) -> str:
        """Return what failed by itself, without the ranks that followed."""
        pid_text = f" (pid {self.pid})" if self.pid else ""
        source_text = f"{self.host}, rank {self.rank}{pid_text}" if self.rank >= 0 else self.host
        source_prefix = f"{source_text}: " if source_text and not self.names_hosts else ""
        moment_text = ""
        if self.step:
            moment_text = f" at step {self.step}"
            if self.may_be_later:
                moment_text = f" after step {self.step} or a little later"
        elif self.during:
            moment_text = f" while {self.during}"
        # What an exception says may be a sentence.
        problem_text = self.problem.removesuffix(".") if moment_text else self.problem
        return f"{source_prefix}{problem_text}{moment_text}"


@dataclass(frozen=True)
class Stall:
    """A time in which ranks made no step. Its fields are keys of the summary."""

    ranks: tuple[int, ...]
    since: float
    seconds: float
    """How long they had made none when it was found."""
    culprits: tuple[int, ...] = ()
    """The ranks that all others wait for, once the stacks have come."""
    stopped: tuple[int, ...] = ()
    """Those of them that a signal or a debugger has stopped."""
    text: str = ""
    """In words, with the culprits once they are known."""
    facts: tuple[str, ...] = ()
    """The same in parts: whom the others wait for, who waits, and what else is known."""
    over: float = 0.0
    """When they went on; 0 before."""
    explained: bool = False
    """All is known that will be."""


class LogLine(NamedTuple):
    """One line of the log of a run."""

    number: int
    """Counts all lines of the run, from 0."""
    time: float
    host: str
    """Its name; "" for the session."""
    rank: int
    """-1 for hosts and the session."""
    stream: str
    """`stdout`, `stderr`, `note` for remarks of rankboard, `cause` for that on why a run failed, or
    `epoch` for its line of an epoch."""
    text: str
    routine: bool = False
    """See `remote.run.output.log_levels.is_routine`."""
