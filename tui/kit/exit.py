"""The exit codes, and the one place where a mistake of the user ends a command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from remote.own_python import install_command
from remote.run.state.phases import Verdict
from training.mistake import Mistake, MistakeError
from tui.kit.narrate import echo, narrate

FAILED = Verdict.FAILED.value
"""A rank failed."""
USAGE = Verdict.REFUSED.value
"""Refused: the command line, a file or a check is wrong, or the user did not agree."""
UNREACHABLE = Verdict.LOST.value
"""A host could not be reached, or was lost."""
STOPPED = Verdict.STOPPED.value
"""Stopped by the user."""
TIMED_OUT = 124
"""The time that the user has given is over, as with timeout(1)."""


class UsageError(Exception):
    """The command line is wrong."""

    def __init__(self, text: str, mistakes: Sequence[Mistake] = ()) -> None:
        """`mistakes` are those that the text has in words, where they are known apart."""
        super().__init__(text)
        self.mistakes = tuple(mistakes) or (Mistake(problem=text),)


MISTAKES = (MistakeError, UsageError)
"""Errors that the user can correct; each names what is wrong and what to do."""


def to_install(extra: str) -> str:
    """Say how to install the packages of an extra, beside the rankboard that runs."""
    command = install_command(f"'rankboard[{extra}]'")
    return f"run {command}"


_writes_json = False


def write_mistakes_as_json(is_wanted: bool) -> None:
    """Have `refusing` also print each mistake as JSON on stdout, or not."""
    global _writes_json
    _writes_json = is_wanted


def _print_mistakes(error: Exception) -> None:
    """Print a JSON object for each mistake of an error."""
    from tui.kit.output import json_line  # with modules that no plain command line needs

    mistakes: Sequence[Mistake] = (Mistake(problem=str(error)),)
    if isinstance(error, MISTAKES):
        mistakes = error.mistakes
    head_fields = {"event": "mistake", "time": time.time(), "host": None, "rank": None}
    for mistake in mistakes:
        mistake_fields = asdict(mistake)
        del mistake_fields["about"]  # which only says where a form shows it
        echo(json_line(head_fields | mistake_fields), end="")


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """End the command with exit code 2 and the error's text at a mistake, or at one of `errors`."""
    try:
        yield
    except MISTAKES + errors as error:
        narrate(str(error))
        if _writes_json:
            _print_mistakes(error)
        raise SystemExit(USAGE) from None
