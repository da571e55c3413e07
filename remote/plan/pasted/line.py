"""A command line that somebody typed on one node. Pure, but for the sources that a caller reads."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from remote.plan import placeholders
from remote.plan.pasted.arguments import RewrittenArguments, rewrite_arguments
from remote.plan.pasted.script_facts import TELLING, ScriptFacts, read_facts
from remote.plan.placeholders import find_shell_text
from remote.plan.python_line import MODULE, python_line

ReadSource = Callable[[str], str]
"""Reads a file, by its path from the folder of the ranks; "" if there is none here."""
_MOST_STARTERS = 5
"""Words that may stand before Python, as in `env A=B timeout 60 python train.py`."""
_FIRST_NODE = "master"
_OTHER_NODES = ("slave", "worker")
"""Folders or files with the programs of the first node and of the others."""
_MOST_MODULES = 50
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\;&|()<>]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_NEXT_COMMAND = re.compile(r"[;&|()\n]")


class PastedLine(Struct, frozen=True):
    """A command line that was typed for one node, and how it reads for all ranks."""

    words: tuple[str, ...]
    """With placeholders."""
    shared: str
    """What all ranks would share, as it was typed, such as `--rank 0`; "" if an option is missing
    that gives each its rank."""
    own_workers: str = ""
    """The option by which each of several ranks of a host starts workers, such as `--nproc 2`; ""
    if none does."""


def find_pasted_line(
    words: Sequence[str], read_source: ReadSource, *, is_one_per_host: bool
) -> PastedLine | None:
    """Return how a command line reads for all ranks; None if each can have it as it is.

    `is_one_per_host`: no host has several ranks.
    """
    shell_index = find_shell_text(words)
    if shell_index < 0:
        rewritten = _rewrite_command(words, "", read_source, is_one_per_host)
        if not rewritten:
            return None
        end = rewritten.added_index + 1
        arguments = rewritten.arguments
        new_words = (*arguments[:end], *rewritten.added, *arguments[end:])
        return PastedLine(new_words, rewritten.shared, rewritten.own_workers)
    pasted_text = _rewrite_shell_text(words[shell_index], read_source, is_one_per_host)
    if not pasted_text:
        return None
    new_words = (*words[:shell_index], *pasted_text.words, *words[shell_index + 1 :])
    return replace(pasted_text, words=new_words)


def _rewrite_command(
    words: Sequence[str], folder: str, read_source: ReadSource, is_one_per_host: bool
) -> RewrittenArguments | None:
    """Return the words of one command with placeholders; None if each rank can have them."""
    facts, num_program_words = read_script(words, folder, read_source)
    # Options of Python itself, such as -m, are none of the script.
    program_words, arguments = words[:num_program_words], words[num_program_words:]
    rewritten = rewrite_arguments(arguments, facts, is_one_per_host=is_one_per_host)
    if not rewritten:
        return None
    *starters, program_name = program_words
    program_name = _with_other_program(program_name, folder, read_source)
    return replace(
        rewritten,
        arguments=(*starters, program_name, *rewritten.arguments),
        added_index=num_program_words + rewritten.added_index,
    )


def _with_other_program(name: str, folder: str, read_source: ReadSource) -> str:
    """Return the name of a program with the choice of a rank in it, if node 0 has a program of its
    own, such as `master/train.py`, and that of the other nodes is beside it."""
    parts = name.split("/")
    for index, part in enumerate(parts):
        stem, dot, ending = part.partition(".")
        if stem != _FIRST_NODE:
            continue
        for other_stem in _OTHER_NODES:
            other_parts = (*parts[:index], other_stem + dot + ending, *parts[index + 1 :])
            if read_source(posixpath.join(folder, *other_parts)):
                parts[index] = f"{{{placeholders.RANK.name}:{stem}:{other_stem}}}{dot}{ending}"
                return "/".join(parts)
    return name


def read_script(
    words: Sequence[str], folder: str, read_source: ReadSource
) -> tuple[ScriptFacts, int]:
    """Return what the script of one command says, and how many of its words stand before the
    arguments of that script."""
    for index in range(min(len(words), _MOST_STARTERS)):
        python_words = python_line(words[index:])
        if python_words and python_words.name:
            facts = _gather_facts(python_words.name, python_words.kind, folder, read_source)
            return facts, len(words) - len(python_words.rest)
    return ScriptFacts(), 1


def _gather_facts(name: str, kind: str, folder: str, read_source: ReadSource) -> ScriptFacts:
    """Return what a script and the modules beside it say."""
    path = posixpath.join(folder, name.replace(".", "/") if kind == MODULE else name)
    path = posixpath.normpath(path)
    paths = [f"{path}.py", f"{path}/__main__.py"] if kind == MODULE else [path]
    source = next(filter(None, map(read_source, paths)), "")
    facts = read_facts(source)
    for module in facts.modules[:_MOST_MODULES]:
        # One in a package is named from where Python starts, or from the package itself.
        for start in {folder, posixpath.dirname(path)}:
            module_source = read_source(posixpath.join(start, module.replace(".", "/") + ".py"))
            # To parse a large module takes a second.
            if any(word in module_source for word in TELLING):
                facts |= read_facts(module_source)
    return facts


class ShellWord(Struct, frozen=True):
    """A word in the text of a shell."""

    text: str
    """Without its quotes."""
    start: int
    end: int


def _rewrite_shell_text(
    shell_text: str, read_source: ReadSource, is_one_per_host: bool
) -> PastedLine | None:
    """Return the text of a shell with placeholders in its commands, as one word; None if each rank
    can have it as it is."""
    changes: list[tuple[int, int, str]] = []
    rewritten_commands: list[RewrittenArguments] = []
    for folder, command in _split_with_folders(shell_text):
        words = [word.text for word in command]
        rewritten = _rewrite_command(words, folder, read_source, is_one_per_host)
        if not rewritten:
            continue
        rewritten_commands.append(rewritten)
        for word, new_word in zip(command, rewritten.arguments, strict=True):
            if new_word != word.text:
                changes.append((word.start, word.end, new_word))
        if rewritten.added:
            end = command[rewritten.added_index].end
            changes.append((end, end, " " + " ".join(rewritten.added)))
    if not rewritten_commands:
        return None
    # From the end, so that the places of the others stay.
    for start, end, new_text in sorted(changes, reverse=True):
        shell_text = shell_text[:start] + new_text + shell_text[end:]
    first_command = rewritten_commands[0]
    return PastedLine((shell_text,), first_command.shared, first_command.own_workers)


def split_line(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the words of each command of a line, with the folder in which a shell starts it."""
    shell_index = find_shell_text(words)
    if shell_index < 0:
        yield "", list(words)
        return
    for folder, command in _split_with_folders(words[shell_index]):
        yield folder, [word.text for word in command]


def _split_with_folders(shell_text: str) -> Iterator[tuple[str, list[ShellWord]]]:
    folder = ""
    for command in split_commands(shell_text):
        if command[0].text == "cd" and len(command) > 1:
            folder = posixpath.join(folder, command[1].text)
        yield folder, command


def split_commands(shell_text: str) -> Iterator[list[ShellWord]]:
    """Yield the words of each command in the text of a shell."""
    command: list[ShellWord] = []
    for match in _SHELL_WORD.finditer(shell_text):
        start, end = match.span()
        previous_end = command[-1].end if command else start
        gap = shell_text[previous_end:start].replace("\\\n", "")
        if command and _NEXT_COMMAND.search(gap):
            yield command
            command = []
        try:
            word_text = "".join(shlex.split(match[0]))
        except ValueError:
            word_text = match[0]
        command.append(ShellWord(word_text, start, end))
    if command:
        yield command
