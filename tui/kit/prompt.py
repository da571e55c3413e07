"""The one question that commands ask before they change something."""

from __future__ import annotations

import sys

import typer

from tui.kit.exit import UsageError


def confirm(question: str, yes: bool, *also: str, instead: str = "pass --yes") -> bool:
    """Ask a question on stderr: return whether the user answers yes, or one of the words of `also`.

    With `yes` (the flag --yes) nothing is asked. It does not use typer.confirm, which writes to
    stdout, where data go. Raises: UsageError, where there is no terminal to ask on, which says what
    to do `instead`.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"cannot ask for confirmation without a terminal; {instead}")
    typer.echo(f"rankboard: {question} ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:  # the end of the input: the cursor still stands behind the question
        typer.echo("", err=True)
    return answer.strip().lower() in ("y", "yes") or answer.strip() in also
