"""The exit codes, and the one place where a mistake of the user ends a command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from remote.run.state.phases import Verdict
from training.mistake import MistakeError
from tui.kit.narrate import narrate

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


MISTAKES = (MistakeError, UsageError)
"""Errors that the user can correct; each names what is wrong and what to do."""


def to_install(extra: str) -> str:
    """Say how to install the packages of an extra, beside the rankboard that runs."""
    return f"run {shlex.quote(sys.executable)} -m pip install 'rankboard[{extra}]'"


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """End the command with exit code 2 and the error's text at a mistake, or at one of `errors`."""
    try:
        yield
    except MISTAKES + errors as error:
        narrate(str(error))
        raise SystemExit(USAGE) from None
