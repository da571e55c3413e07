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
    first_word = words[0]
    problem_text = f"rankboard has no command {first_word!r}. "
    some_flags = "… " if flags else ""
    # The second word, too, for those who write `rankboard run train.py`.
    if any(map(_is_program, words[:2])):
        program_words = words[1:] if first_word in STARTS else words
        return (
            "To run your own script, put -- before it: rankboard --run "
            f"{some_flags}-- {shlex.join(program_words)}"
        )
    if first_word in STARTS:
        run_words = shlex.join(words[1:])
        return (
            f"{problem_text}To start a run, write: rankboard --run {some_flags}{run_words}".rstrip()
        )
    if first_word in LISTS:
        return (
            f"{problem_text}To list runs, write: rankboard ps, or rankboard runs for those "
            "recorded here"
        )
    if first_word.endswith(".toml"):
        return (
            f"{problem_text}To use a hosts file, write: rankboard --hosts {shlex.quote(first_word)}"
        )
    if len(flags) > 1 and flags[-2] == "--sync-option" and "=" not in flags[-1]:
        return (
            f"{first_word!r} is not a command. Write an option and its value as one word: "
            f"--sync-option {flags[-1]}={first_word}"
        )
    # A number or a path is no misspelt command, but one value too many.
    if not first_word.isidentifier() and not did_you_mean(first_word, commands):
        return f"{first_word!r} is not a command: a flag takes one value; see rankboard --help"
    return refuse_command("rankboard", first_word, commands)


def refuse_command(command: str, word: str, known: Iterable[str]) -> str:
    """Say that `command` has no command `word`, and which of the known ones may be meant."""
    nearest_text = did_you_mean(word, [name for name in known if name not in REMOVES])
    hint = f"{nearest_text} " if nearest_text else ". "
    # The help of rankboard itself shows only what most people need.
    help_words = "--help all" if command == "rankboard" else "--help"
    return f"{command} has no command {word!r}{hint}{command} {help_words} lists all commands"


def _is_program(word: str) -> bool:
    return word.endswith((".py", ".sh")) or word in PROGRAMS
