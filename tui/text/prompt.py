"""The one question that commands ask before they change something."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tui.text.usage import USAGE

Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for confirmation")]


def agreed(question: str, yes: bool, *also: str) -> bool:
    """Whether a person answers yes, or one of the words of `also`, or --yes was given (`yes`).

    Ends the command with exit code 2 where there is no terminal to ask on.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        typer.echo(
            "rankboard: cannot ask for confirmation without a terminal; pass --yes", err=True
        )
        raise typer.Exit(USAGE)
    typer.echo(f"rankboard: {question} ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:  # nobody has pressed enter
        typer.echo("", err=True)
    return answer.strip().lower() in ("y", "yes") or answer.strip() in also
