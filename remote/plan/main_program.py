"""The program that the words of a script lead to, such as `train.py` of `bash -c 'cd src && python
train.py'`. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from msgspec import Struct

from remote.plan.placeholders import SHELLS, find_shell_text
from remote.plan.python_line import FILE, MODULE, python_line

COMMAND = "command"
PYTHONS = ("python", "python3")
"""Names of Python that mean the host's own."""
NO_PYTHON = "--no-python"
"""Stands before a file of Python that is executed as it is."""
_ENV = "env"
_BEFORE_COMMAND = ("then", "do", "else", "if", "while", "!", "{", "exec", "time", "nohup")
"""Words of a shell that may stand before a command."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_UNSET = ("-u", "--unset")
"""Options of `env` with the name of a variable as the next word."""
_LAUNCHERS = ("torchrun", "accelerate", "fabric", "deepspeed")
_LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate")
_EXPANDED = re.compile(r"[$`*?]")
"""What the shell of a host replaces, so that the launcher cannot know the name."""


class MainProgram(Struct, frozen=True):
    """The program of a script."""

    kind: str
    """FILE of Python or of a shell, MODULE, or COMMAND."""
    name: str
    """"" if it cannot be known."""
    folder: str = ""
    """The folder into which a shell goes before it starts the program; "" if it stays."""

    def folder_from(self, start: str) -> str:
        """Return the folder of the program if the shell begins in `start`."""
        return posixpath.join(start, self.folder) if self.folder else start


def find_main_program(words: Sequence[str]) -> MainProgram:
    """Return the program that the words of a script lead to."""
    shell_index = find_shell_text(words)
    in_shell = _find_in_shell(words[shell_index]) if shell_index >= 0 else None
    if in_shell:
        return in_shell
    words = _skip_env(words)
    python_words = python_line(words)
    if python_words and python_words.interpreter in ("", *PYTHONS):
        return MainProgram(python_words.kind, python_words.name)
    shell_file = _find_shell_file(words)
    if shell_file:
        return MainProgram(FILE, shell_file)
    first_word, second_word, *_ = (*words, "", "")
    return MainProgram(COMMAND, second_word if first_word == NO_PYTHON else first_word)


def _find_shell_file(words: Sequence[str]) -> str:
    """Return the file that a shell executes, as in `bash -e run.sh`; "" if there is none."""
    if not words or posixpath.basename(words[0]) not in SHELLS:
        return ""
    for word in words[1:]:
        if not word.startswith("-"):
            return word
        # A text follows -c, and a name -o.
        if word.startswith("--") or word.endswith(("c", "o")):
            return ""
    return ""


def _find_in_shell(shell_text: str) -> MainProgram | None:
    """Return the first program of Python that the text of a shell starts, if there is any."""
    from remote.plan.pasted.line import split_commands  # here, as few scripts are text for a shell

    folder = ""
    for command in split_commands(shell_text):
        words = [word.text for word in command]
        while words and (words[0] in _BEFORE_COMMAND or _VARIABLE.match(words[0])):
            del words[0]
        words = _skip_env(words)
        if words[:1] == ["cd"] and len(words) > 1:
            folder = posixpath.join(folder, words[1])
        program = _find_in_command(words)
        if program:
            kind, name = program
            is_known = not _EXPANDED.search(folder + name)
            return MainProgram(kind, name if is_known else "", folder)
    return None


def _skip_env(words: Sequence[str]) -> list[str]:
    """Return the words after `env` and its arguments, as in `env -u RANK A=1 python train.py`."""
    remaining_words = list(words)
    if remaining_words[:1] != [_ENV]:
        return remaining_words
    del remaining_words[0]
    while remaining_words:
        word = remaining_words[0]
        if word in _UNSET:
            del remaining_words[:2]
        elif word.startswith("-") or _VARIABLE.match(word):
            del remaining_words[0]
        else:
            break
    return remaining_words


def _find_in_command(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the kind and the name of what a command of a shell makes Python run, if it does."""
    python_words = python_line(words)
    is_launcher = bool(words) and posixpath.basename(words[0]) in _LAUNCHERS
    if python_words and python_words.kind == MODULE and python_words.name in _LAUNCHER_MODULES:
        is_launcher = True
    if is_launcher:
        # Which of its options take a value is known to the launcher only.
        launched_words = words[len(words) - len(python_words.rest) :] if python_words else words[1:]
        if "-m" in launched_words[:-1]:
            return MODULE, launched_words[launched_words.index("-m") + 1]
        scripts = [word for word in launched_words if word.endswith(".py")]
        return (FILE, scripts[0]) if scripts else None
    if python_words and python_words.name:
        return python_words.kind, python_words.name
    return None
