"""Say what to write instead of a command that does not exist."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from training.registry import did_you_mean

STARTS = ("run", "start", "launch", "train", "exec")
LISTS = ("ls", "list", "status", "jobs", "top", "show")
REMOVES = ("prune", "stop", "down")
"""Commands that end or delete something: they are never suggested for a typing error."""
PROGRAMS = ("python", "python3", "torchrun", "mpirun")


def advise_command(words: Sequence[str], flags: Sequence[str], commands: Iterable[str]) -> str:
    """Say what to write instead of `words`, which stand behind `flags` and name no command."""
    word = words[0]
    problem = f"rankboard has no command {word!r}. "
    some_flags = "… " if flags else ""
    if any(map(_is_program, words[:2])):
        program = words[1:] if word in STARTS else words
        return (
            "To run your own script, put -- before it: rankboard --run "
            f"{some_flags}-- {shlex.join(program)}"
        )
    if word in STARTS:
        rest = shlex.join(words[1:])
        return f"{problem}To start a run, write: rankboard --run {some_flags}{rest}".rstrip()
    if word in LISTS:
        return (
            f"{problem}To list runs, write: rankboard ps, or rankboard runs for those recorded here"
        )
    if word.endswith(".toml"):
        return f"{problem}To use a hosts file, write: rankboard --hosts {shlex.quote(word)}"
    if len(flags) > 1 and flags[-2] == "--sync-option" and "=" not in flags[-1]:
        return (
            f"{word!r} is not a command. Write an option and its value as one word: --sync-option "
            f"{flags[-1]}={word}"
        )
    if not word.isidentifier() and not did_you_mean(word, commands):
        return f"{word!r} is not a command: a flag takes one value; see rankboard --help"
    return refuse_command("rankboard", word, commands)


def refuse_command(command: str, word: str, known: Iterable[str]) -> str:
    """Say that `command` has no command `word`, and which of the known ones may be meant."""
    near = did_you_mean(word, [name for name in known if name not in REMOVES])
    hint = f"{near} " if near else ". "
    return f"{command} has no command {word!r}{hint}{command} --help lists all commands"


def _is_program(word: str) -> bool:
    return word.endswith((".py", ".sh")) or word in PROGRAMS
