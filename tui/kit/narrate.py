"""Print data to stdout, and lines for the user to stderr."""

from __future__ import annotations

import sys
from typing import TextIO


def echo(text: object = "", *, end: str = "\n", to_stderr: bool = False) -> None:
    """Print a text at once to stdout, which is for data, or to stderr."""
    stream = sys.stderr if to_stderr else sys.stdout
    stream.write(f"{text}{end}")
    stream.flush()


def narrate(*texts: str, file: TextIO | None = None) -> None:
    """Print the lines of these texts to stderr, or to `file`, each after "rankboard: ".

    The texts may be a host's: control characters are removed.
    """
    # Not for a command that says nothing: it comes with all that a host can send.
    from remote.sanitise import shown

    stream = file or sys.stderr
    for text in texts:
        for line in shown(text):
            stream.write(f"rankboard: {line}\n")
            stream.flush()
