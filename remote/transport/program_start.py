"""Runs the command that starts a program on a host, until the program speaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeVar

from remote.cluster.hosts import Host
from remote.transport import Program, ReachProgress
from remote.transport.bootstrap.archive import Archive
from remote.transport.bootstrap.command import build_start_command
from remote.transport.failure import FailureCause
from remote.transport.problem import Deadline, ReachError
from remote.transport.start_dialog import (
    AgentReady,
    CodeChanged,
    CodeNeeded,
    CodePlaced,
    DialogStep,
    ShellNoise,
    StartDialog,
    StartFailed,
    is_echo,
    last_line,
    quote_output,
)
from training.wire.enums import Reach

STARTING = "starting its agent"


class StartingChannel(Protocol):
    """A channel while its program starts."""

    def receive(self, deadline: Deadline) -> bytes:
        """The next bytes before the deadline; b"" at their end. Raises: TimeoutError."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send much. The deadline starts again with each part. Raises: TimeoutError, OSError."""

    def begin(self, rest: bytes) -> None:
        """The program speaks, with these bytes first."""

    def ended(self) -> tuple[int, str]:
        """The exit status (-1: none came) and the end of stderr, once the output has ended.
        Raises: Problem, where what carries the command says what is wrong."""


LineT = TypeVar("LineT", bound=StartingChannel)


class ProgramStart:
    """One start of a program on a host that runs commands."""

    def __init__(self, host: Host, deadline: Deadline, progress: ReachProgress) -> None:
        self._host = host
        self._deadline = deadline
        self._progress = progress
        self._needed = self._placed = False
        self._noise = ""

    def run(
        self,
        program: Program,
        code: Archive,
        execute: Callable[[str], LineT],
        *,
        stays: bool = False,
    ) -> LineT:
        """The channel to the program, once it speaks. `execute` has the host's shell run a command;
        `stays`: see `build_start_command`. Raises: ReachError, TimeoutError,
        OSError, what `execute` raises."""
        self._deadline.doing = STARTING
        self._progress.phase(Reach.STARTING)
        python = self._host.python or "python3"
        channel = execute(
            build_start_command(python, self._host.workdir, code, program.argv(), stays=stays)
        )
        talk = StartDialog(hosts_file=self._host.hosts_file)
        while data := channel.receive(self._deadline):
            for step in talk.feed(data):
                if isinstance(step, AgentReady):
                    channel.begin(step.rest)
                    return channel
                if isinstance(step, CodeNeeded):
                    self._send(channel, code)
                self._take(step)
        raise _ended(self._host, channel, self._placed, self._noise, talk.echoed)

    def _send(self, channel: StartingChannel, code: Archive) -> None:
        """Send the code. As long as it moves, the host has time."""
        self._needed = True
        self._progress.phase(Reach.DEPLOYING)
        self._deadline.doing = "sending the code"
        channel.send(code.data, self._deadline)

    def _take(self, step: DialogStep) -> None:
        match step:
            case ShellNoise(text):
                self._noise = text
                self._progress.said(text)
            case CodePlaced():
                self._placed = True
                self._deadline.doing = STARTING
                if self._needed:
                    self._progress.phase(Reach.STARTING)
            case CodeChanged(folder):
                self._progress.said(
                    f"the code in {folder} was changed since it was sent; it was sent again"
                )
            case StartFailed(failure):
                raise ReachError(failure.cause, failure.what, failure.advice)


def _ended(
    host: Host, channel: StartingChannel, placed: bool, noise: str, echoed: bool
) -> ReachError:
    """Why a command ended before its program spoke. `echoed`: the host printed the program instead
    of running it."""
    python = host.python
    status, said = channel.ended()
    last = quote_output(last_line(said))
    if placed:
        why = last or "it gave no reason"
        return ReachError(
            FailureCause.AGENT, f"its agent ended at its start (exit status {status}): {why}"
        )
    advice = f'set python = "/path/to/python3" for it in {host.hosts_file}'
    if echoed or is_echo(said) or _speaks(python, said):
        what = f"{python} is not a working Python 3 (exit status {status}): {last or noise}"
        return ReachError(FailureCause.PYTHON, what, advice)
    if status in (126, 127) or re.search(
        r"not found|unknown command|no such file", said, re.IGNORECASE
    ):
        return ReachError(FailureCause.PYTHON, f"no {python} there ({last})", advice)
    reason = last or noise or "it gave no reason"
    what = f"its login shell, or {python} there, ended (exit status {status}) before anything was"
    return ReachError(FailureCause.SHELL, f"{what} started: {reason}")


def _speaks(python: str, said: str) -> bool:
    """Whether a line of stderr begins with the name of this program, as error messages do."""
    names = "|".join(map(re.escape, {python, python.rpartition("/")[2]}))
    return bool(
        re.search(
            rf"^(?:{names}): (?!.*(?:not found|no such file))", said, re.IGNORECASE | re.MULTILINE
        )
    )
