"""The one way to write a line to stderr for the user."""

from __future__ import annotations

from typing import TextIO

import typer

from remote.sanitise import shown


def narrate(*texts: str, file: TextIO | None = None) -> None:
    """Print the lines of these texts to stderr, or to `file`, each after "rankboard: ".

    The texts may be a host's: control characters are removed.
    """
    for text in texts:
        for line in shown(text):
            typer.echo(f"rankboard: {line}", file=file, err=True)
