"""Understand what a host says from the start of its command to the agent's marker. No I/O: who owns
the connection feeds `StartDialog` with what comes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from remote.cluster.hosts import HOSTS_FILE
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport.bootstrap.first import SPOKEN
from remote.transport.failure import Failure, FailureCause, explain_workdir_failure
from training.agent import MARKER
from training.wire.line_cutter import LineCutter, LineTooLong


@dataclass(frozen=True)
class ShellNoise:
    """What a login shell printed before the program started."""

    text: str


@dataclass(frozen=True)
class CodeNeeded:
    """The host waits for the archive."""


@dataclass(frozen=True)
class CodePlaced:
    """The host has the code, and starts the agent."""


@dataclass(frozen=True)
class CodeChanged:
    """The code in this folder was changed since it was sent. It has been replaced."""

    folder: str


@dataclass(frozen=True)
class StartFailed:
    """The host cannot start the agent."""

    failure: Failure


@dataclass(frozen=True)
class AgentReady:
    """The agent has started. `rest` are its first bytes after the marker."""

    rest: bytes


IN_HOSTS_FILE = (FailureCause.PYTHON, FailureCause.CODE)
"""Causes that a host itself reports, whose advice ends with a setting of the hosts file."""

DialogStep = ShellNoise | CodeNeeded | CodePlaced | CodeChanged | StartFailed | AgentReady


class StartDialog:
    """Turns what a host prints before the agent's marker into steps."""

    def __init__(self, limits: Limits = LIMITS, hosts_file: str = HOSTS_FILE) -> None:
        self._hosts_file = hosts_file
        self._limits = limits
        self._cutter = LineCutter(limits.banner)
        self._size = 0
        self._is_code_needed = False
        self.echoed = False
        """The host printed the program instead of running it."""

    def feed(self, data: bytes) -> Iterator[DialogStep]:
        """Take bytes as they come, and yield each step that they complete. Feed nothing after
        `AgentReady` or `StartFailed`."""
        self._size += len(data)
        try:
            lines = self._cutter.feed(data)
        except LineTooLong:
            lines = []
            # This is answered below like many short lines.
            self._size = self._limits.banner + 1
        for line_number, line in enumerate(lines, start=1):
            is_ready = line.endswith(MARKER)
            if is_ready:
                noise_bytes, speech_mark, spoken_words = line.removesuffix(MARKER), b"", b""
            else:
                noise_bytes, speech_mark, spoken_words = line.rstrip(b"\n").partition(
                    SPOKEN.encode()
                )
            yield from self._hear_noise(noise_bytes.decode(errors="replace"))
            if is_ready:
                yield AgentReady(b"".join(lines[line_number:]) + self._cutter.rest)
                return
            if speech_mark:
                yield self._step(spoken_words.decode(errors="replace"))
        if self._size > self._limits.banner:
            yield self._too_much()

    def _hear_noise(self, noise_text: str) -> Iterator[ShellNoise]:
        self.echoed |= is_echo(noise_text)
        quoted_noise = quote_output(noise_text)
        if quoted_noise:
            yield ShellNoise(quoted_noise)

    def _too_much(self) -> StartFailed:
        size_limit = size(self._limits.banner)
        failure_text = (
            f"its login shell, or its python, printed more than {size_limit} before anything"
        )
        advice = (
            f"make its start-up files print nothing, or set python for it in {self._hosts_file}"
        )
        return StartFailed(Failure(FailureCause.SHELL, f"{failure_text} was started", advice))

    def _step(self, spoken_words: str) -> DialogStep:
        # What is broken in any way, something else has said.
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            match spoken_words.split(" ", 1):
                case ["need"] if not self._is_code_needed:
                    self._is_code_needed = True
                    return CodeNeeded()
                case ["have"]:
                    return CodePlaced()
                case ["changed", folder]:
                    return CodeChanged(_one_line(folder))
                case ["error", error_text]:
                    return StartFailed(self._failure(error_text))
                case ["unusable", json_facts]:
                    workdir, error_name, reason = self._shown(json_facts)
                    failure = explain_workdir_failure(workdir, error_name, reason, self._hosts_file)
                    return StartFailed(failure)
        failure_text = (
            f"its start said {quote_output(spoken_words)!r}, which this version does not expect"
        )
        return StartFailed(Failure(FailureCause.OTHER, failure_text))

    def _failure(self, error_text: str) -> Failure:
        """Read what `fail` of `bootstrap.rest` says. Raises: ValueError, TypeError,
        AttributeError, RecursionError."""
        cause_name, _, json_facts = error_text.partition(" ")
        failure_text, advice = self._shown(json_facts)
        cause = FailureCause(cause_name)
        if cause in IN_HOSTS_FILE:  # which the host cannot know
            advice = f"{advice} in {self._hosts_file}"
        return Failure(cause, failure_text, advice)

    def _shown(self, json_facts: str) -> list[str]:
        return [_one_line(fact)[: self._limits.shown] for fact in json.loads(json_facts)]


QUOTED = 200
"""Characters of a host's output that a message quotes."""
_PROGRAM = re.compile(
    r"""(?:import binascii;exec\(binascii\.a2b_base64\(")?[A-Za-z0-9+/=]{80,}(?:"\)\))?"""
)


def quote_output(output_text: str) -> str:
    """Return a host's output for a message: one line, cut, without the program it was given."""
    output_text = _one_line(_PROGRAM.sub("…", output_text))
    return output_text if len(output_text) <= QUOTED else f"{output_text[: QUOTED - 1]}…"


def _one_line(text: str) -> str:
    if not text.strip():
        return ""
    # what it imports takes as long as all else here, and most hosts print nothing
    from remote.sanitise import one_line

    return one_line(text)


def is_echo(text: str) -> bool:
    """Return True if a text contains the program: what printed it instead of running it is no
    Python."""
    return bool(_PROGRAM.search(text))


def last_line(text: str) -> str:
    """Return the last line of a program's stderr; of a traceback, the error."""
    return text.strip().rpartition("\n")[2].strip()
