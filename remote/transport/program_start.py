"""Run the command that starts a program on a host, until the program speaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeVar

from remote.cluster.hosts import Host
from remote.transport import Program, ReachProgress
from remote.transport.bootstrap.archive import Archive
from remote.transport.bootstrap.command import build_start_command
from remote.transport.failure import Deadline, FailureCause, ReachError
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

STARTING_AGENT = "starting its agent"


class StartingChannel(Protocol):
    """A channel while its program starts."""

    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes before the deadline; b"" at their end. Raises: TimeoutError."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send much. The deadline starts again with each part. Raises: TimeoutError, OSError."""

    def begin(self, rest: bytes) -> None:
        """Note that the program speaks, with these bytes first."""

    def ended(self) -> tuple[int, str]:
        """Return the exit status (-1: none came) and the end of stderr, once the output has ended.
        Raises: ReachError, if what carries the command says what is wrong."""


ChannelT = TypeVar("ChannelT", bound=StartingChannel)


class ProgramStart:
    """One start of a program on a host that runs commands."""

    def __init__(self, host: Host, deadline: Deadline, progress: ReachProgress) -> None:
        self._host = host
        self._deadline = deadline
        self._progress = progress
        self._is_code_needed = False
        self._is_code_placed = False
        self._noise = ""

    def run(
        self,
        program: Program,
        code: Archive,
        execute: Callable[[str], ChannelT],
        *,
        stays: bool = False,
    ) -> ChannelT:
        """Return the channel to the program, once it speaks.

        `execute` has the host's shell run a command; `stays`: see `build_start_command`. Raises:
        ReachError, TimeoutError, OSError, what `execute` raises.
        """
        self._progress.phase(Reach.STARTING)
        host = self._host
        python_path = host.python or "python3"
        start_command = build_start_command(
            python_path, host.workdir, code, program.argv(), stays=stays
        )
        self._deadline.doing = STARTING_AGENT
        return self.await_program(execute(start_command), code)

    def await_program(self, channel: ChannelT, code: Archive | None = None) -> ChannelT:
        """Return the channel, once its program speaks. `code`: what to send if the host lacks it;
        None: it has it. Raises: ReachError, TimeoutError, OSError."""
        self._is_code_placed = code is None
        dialog = StartDialog(hosts_file=self._host.hosts_file)
        while data := channel.receive(self._deadline):
            for step in dialog.feed(data):
                if isinstance(step, AgentReady):
                    channel.begin(step.rest)
                    return channel
                if isinstance(step, CodeNeeded) and code:
                    self._send(channel, code)
                self._take(step)
        raise self._explain_end(channel, dialog.echoed)

    def _send(self, channel: StartingChannel, code: Archive) -> None:
        """Send the code. As long as it moves, the host has time."""
        self._is_code_needed = True
        self._progress.phase(Reach.DEPLOYING)
        self._deadline.doing = "sending the code"
        channel.send(code.data, self._deadline)

    def _take(self, step: DialogStep) -> None:
        match step:
            case ShellNoise(text):
                self._noise = text
                self._progress.said(text)
            case CodePlaced():
                self._is_code_placed = True
                self._deadline.doing = STARTING_AGENT
                if self._is_code_needed:
                    self._progress.phase(Reach.STARTING)
            case CodeChanged(folder):
                self._progress.said(
                    f"the code in {folder} was changed since it was sent; it was sent again"
                )
            case StartFailed(failure):
                raise ReachError(failure.cause, failure.what, failure.advice)

    def _explain_end(self, channel: StartingChannel, echoed: bool) -> ReachError:
        """Say why a command ended before its program spoke. `echoed`: the host printed the program
        instead of running it."""
        python_path = self._host.python
        status_code, stderr = channel.ended()
        exit_status = f"(exit status {status_code})"
        last_words = quote_output(last_line(stderr))
        end_reason = last_words or "it gave no reason"
        if self._is_code_placed:
            failure_text = f"its agent ended at its start {exit_status}: {end_reason}"
            return ReachError(FailureCause.AGENT, failure_text)
        advice = f'set python = "/path/to/python3" for it in {self._host.hosts_file}'
        if echoed or is_echo(stderr) or _is_from_program(python_path, stderr):
            answer = last_words or self._noise
            failure_text = f"{python_path} is not a working Python 3 {exit_status}: {answer}"
            return ReachError(FailureCause.PYTHON, failure_text, advice)
        is_missing = re.search("not found|unknown command|no such file", stderr, re.IGNORECASE)
        # The codes with which sh says that a command cannot be run, or is not there; csh and fish
        # have others.
        if status_code in (126, 127) or is_missing:
            return ReachError(FailureCause.PYTHON, f"no {python_path} there ({last_words})", advice)
        end_reason = last_words or self._noise or end_reason
        failure_text = (
            f"its login shell, or {python_path} there, ended {exit_status} "
            "before anything was started"
        )
        return ReachError(FailureCause.SHELL, f"{failure_text}: {end_reason}")


def _is_from_program(python_path: str, stderr: str) -> bool:
    """Return True if a line begins with the name of this program, as error messages do."""
    program_names = "|".join(
        re.escape(program_name) for program_name in {python_path, python_path.rpartition("/")[2]}
    )
    message_pattern = rf"^(?:{program_names}): (?!.*(?:not found|no such file))"
    return bool(re.search(message_pattern, stderr, re.IGNORECASE | re.MULTILINE))
