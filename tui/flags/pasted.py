"""Say what to start in place of a command line that was typed for one node."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from remote.plan.pasted.line import PastedLine
from remote.plan.plan import Script
from tui.kit.exit import UsageError
from tui.kit.narrate import narrate
from tui.kit.prompt import confirm

AS_IS = "--as-is starts the line as you wrote it"


def describe_problem(pasted: PastedLine, world_size: int) -> str:
    """Say why the ranks cannot all have the line as it was typed."""
    if pasted.shared:
        all_ranks = "both ranks" if world_size == 2 else f"all {world_size} ranks"
        problem = f"{all_ranks} would get {pasted.shared}"
    else:
        problem = f"nothing in this line says which of the {world_size} ranks each one is"
    if not pasted.own_workers:
        return problem
    # Its author's way is one start on each node.
    workers_hint = f"with {pasted.own_workers}, one slot is enough for a host"
    return f"{problem} ({workers_hint})"


def refuse_line(
    pasted: PastedLine, world_size: int, script: Script, typed: Sequence[str]
) -> UsageError:
    """Return the refusal of a line, with the command to write in its place.

    `typed` are all words of that command line, in which those of the script come last.
    """
    own_words = typed[: len(typed) - len(script.words)]
    # Some flags of torchrun have become words of the script, such as --module.
    if (*own_words, *script.words) != tuple(typed):
        own_words = typed[: typed.index("--") + 1]
    command_line = shlex.join(["rankboard", *own_words, *pasted.words])
    return UsageError(f"{describe_problem(pasted, world_size)}: write\n  {command_line}\n{AS_IS}")


def describe_line(pasted: PastedLine, world_size: int) -> tuple[str, str]:
    """Return why the ranks cannot all have the line, and the line that they can have."""
    problem = describe_problem(pasted, world_size)
    return f"{problem}; each rank gets its own place with", f"  -- {shlex.join(pasted.words)}"


def ask_for_line(pasted: PastedLine, world_size: int) -> None:
    """Ask whether to start the line with placeholders. Raises: UsageError, if not."""
    narrate(*describe_line(pasted, world_size))
    if not confirm("start it so? [y/N]", yes=False, instead=AS_IS):
        raise UsageError(f"nothing was started; {AS_IS}")
