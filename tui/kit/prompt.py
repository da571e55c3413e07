"""The one question that commands ask before they change something."""

from __future__ import annotations

import sys

from tui.kit.exit import UsageError
from tui.kit.narrate import echo


def confirm(question: str, yes: bool, *also: str, instead: str = "pass --yes") -> bool:
    """Ask a question on stderr: return whether the user answers yes, or one of the words of `also`.

    With `yes` (the flag --yes) nothing is asked. Raises: UsageError, if there is no terminal to ask
    on; it says what to do `instead`.
    """
    if yes:
        return True
    # Not stdout, which is for data and may be a pipe.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"cannot ask for confirmation without a terminal; {instead}")
    echo(f"rankboard: {question} ", end="", to_stderr=True)
    answer = sys.stdin.readline()
    if not answer:  # the end of the input: the cursor still stands behind the question
        echo("", to_stderr=True)
    answer_text = answer.strip()
    # Case matters for the others, such as fingerprints.
    return answer_text.lower() in ("y", "yes") or answer_text in also
