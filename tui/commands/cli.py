"""The command line: find the command that the words name, parse its arguments, and call it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING

from tui.kit import palette
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = (
    "doctor",
    "study",
    "trust",
    "ps",
    "runs",
    "prune",
    "setup",
    "attach",
    "open",
    "watch",
    "serve",
    "stop",
    "logs",
    "events",
    "parse",
    "formats",
    "compare",
    "export",
    "report",
    "lab",
)
"""The commands, in the order of the help. Each is in the module of `tui.commands` with its name."""
HELP = ("--help", "-h")
COMPLETE = "__complete"
"""The word with which the script for completion asks for names."""


def main() -> None:
    """Run the `rankboard` command. Ends the process, unless a command has returned."""
    palette.make_streams_fit(sys.stdout, sys.stderr)
    call(sys.argv[1:])


def call(words: Sequence[str]) -> None:
    """Call the command that these words name. Raises: SystemExit, with the exit code."""
    before_dashes = list(takewhile("--".__ne__, words))
    if "--ascii" in before_dashes:
        palette.use_ascii()
    command = words[0] if words else ""
    if command in COMMANDS:
        _call_command(load(command), words[1:], f"rankboard {command}")
    elif command in (COMPLETE, "--install-completion"):
        make_whole_app()(list(words))
    elif "--version" in before_dashes:
        print_version()
    else:
        _call_root(words)


def _call_command(app: App, words: Sequence[str], command: str) -> None:
    """Call a command, or a command of a group such as `rankboard lab`."""
    from tui.flags.command_help import print_help
    from tui.flags.mistakes import Mistakes
    from tui.flags.parsing import Flags, MissingParameter, parse
    from tui.flags.unknown_command import refuse_command

    before_dashes = list(takewhile("--".__ne__, words))
    commands = [name for name in app if not name.startswith("-")]
    if commands and words and words[0] in commands:
        _call_command(app[words[0]], words[1:], f"{command} {words[0]}")
        return
    if any(flag in before_dashes for flag in HELP):
        print_help(app)
        return
    if commands and not words:
        print_help(app)
    with refusing(MissingParameter):
        if commands and not words:
            raise UsageError(f"see {command} --help")
        if commands:
            raise UsageError(refuse_command(command, words[0], commands))
        parsed = parse(app, words, Flags(app, command))
        mistakes = Mistakes(parsed.mistakes)
        if "mistakes" not in parsed.extras:  # the command finds no more of them
            mistakes.refuse()
    parsed.call({"mistakes": mistakes})


def _call_root(words: Sequence[str]) -> None:
    """Start a run: the words name no command. After `--` stands a script."""
    from tui.flags import torchrun
    from tui.flags.command_help import print_help, print_sync_options
    from tui.flags.mistakes import Mistakes
    from tui.flags.parsing import Flags, parse

    app = make_root_app()
    flags = Flags(app, "rankboard")
    before_dashes = list(takewhile("--".__ne__, words))
    after_dashes = words[len(before_dashes) + 1 :]
    with refusing():
        ours, theirs = torchrun.take_out_flags(before_dashes, flags.names)
        given, rest = flags.split(ours)
        if any(flag in given for flag in HELP):
            print_help(make_whole_app())
            print_sync_options()
            return
        line = torchrun.ScriptLine()
        if "--" in words and not rest:
            line = torchrun.parse_script_line(after_dashes, theirs)
        elif theirs and not set(rest).intersection(COMMANDS):
            _refuse_flags_of_torchrun(before_dashes, next(iter(theirs)))
        parsed = parse(app, given, flags)
        mistakes = Mistakes(parsed.mistakes)
        if rest:
            mistakes.refuse()  # what follows may be no command for that reason
            _refuse_words(rest, given)
    parsed.call({"mistakes": mistakes, "line": line})


def _refuse_flags_of_torchrun(words: Sequence[str], flag: str) -> None:
    """Say where flags of torchrun stand, of which `flag` is the first. Raises: UsageError."""
    from tui.flags.torchrun import find_flag

    own = list(takewhile(lambda word: find_flag(word) != flag, words))
    theirs = words[len(own) :]
    line = shlex.join([*own, "--", *theirs])
    problem = f"{theirs[0]} is a flag of torchrun; write it after --, before your script"
    raise UsageError(f"{problem}: rankboard {line}")


def _refuse_words(words: Sequence[str], flags: Sequence[str]) -> None:
    """Refuse words that stand behind the flags of a run. Raises: UsageError."""
    from tui.flags.unknown_command import advise_command

    if words[0] not in COMMANDS:
        raise UsageError(advise_command(words, flags, COMMANDS))
    names = ", ".join(word.partition("=")[0] for word in flags if word.startswith("-"))
    raise UsageError(
        f"{names} does not apply to {words[0]}; put options after the name of the command"
    )


def make_root_app() -> App:
    """Make the command without a name, which starts a run."""
    from tui.commands.run import run
    from tui.flags.command_help import ROOT_USAGE, make_app

    return make_app("rankboard", run, usage=ROOT_USAGE)


def make_whole_app() -> App:
    """Make the command line with all commands, for its help and for completion."""
    from tui.flags.common import OPTIONS

    app = make_root_app()
    app.command(print_version, name="--version", help="print the version", group=OPTIONS)
    app.register_install_completion_command(
        help="complete words of this command in the shell, from the next one on", group=OPTIONS
    )
    for place, name in enumerate(COMMANDS):
        command = load(name)
        command.sort_key = place
        app.command(command)
    return app


@cache
def load(name: str) -> App:
    """Load the command, or the group of commands, of this name."""
    from tui.flags.command_help import make_app

    module = import_module(f"tui.commands.{name}")
    group: App | None = getattr(module, "app", None)
    return group or make_app(f"rankboard {name}", getattr(module, name))


def print_version() -> None:
    """Print the version."""
    from importlib import metadata

    echo(f"rankboard {metadata.version('rankboard')}")
