"""The command line: find the command that the words name, parse its arguments, and call it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING

from tui.kit import palette
from tui.kit.exit import UsageError, refusing, write_mistakes_as_json
from tui.kit.narrate import echo

if TYPE_CHECKING:
    from tui.flags.parsing import CommandApp

COMMANDS = (
    "doctor",
    "study",
    "trust",
    "ps",
    "runs",
    "prune",
    "setup",
    "config",
    "attach",
    "wait",
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
COMMON_COMMANDS = (
    "doctor",
    "setup",
    "trust",
    "study",
    "ps",
    "runs",
    "attach",
    "open",
    "logs",
    "stop",
    "report",
)
COMMON_FLAGS = (
    "--hosts",
    "--local",
    "--upload",
    "--run",
    "--detach",
    "--dry-run",
    "--resume",
    "--max-restarts",
    "--name",
    "--help",
)
"""What most people need: `rankboard --help` shows these, `rankboard --help all` shows all."""
WHOLE = "all"
HELP = ("--help", "-h")
COMPLETE = "__complete"
"""The word with which the script for completion asks for names."""


def main() -> None:
    """Run the `rankboard` command. Ends the process, unless a command has returned."""
    palette.make_streams_fit(sys.stdout, sys.stderr)
    call(sys.argv[1:])


def call(words: Sequence[str]) -> None:
    """Call the command that these words name. Raises: SystemExit, with the exit code."""
    # Behind -- stands a user's script, which may have flags of the same names.
    before_dashes = list(takewhile("--".__ne__, words))
    # Before anything is printed, also by the parser of the command.
    if "--ascii" in before_dashes:
        palette.use_ascii()
    command_name = words[0] if words else ""
    # A program that reads JSON reads mistakes as such as well, also those of the parser.
    write_mistakes_as_json("--json" in before_dashes or command_name == "events")
    if command_name in COMMANDS:
        _call_command(load(command_name), words[1:], f"rankboard {command_name}")
    elif command_name == COMPLETE:
        make_completed_app(words[1:])(list(words))
    elif command_name == "--install-completion":
        # Only this and the help need all commands, and load all their modules.
        make_whole_app()(list(words))
    elif "--version" in before_dashes:
        print_version()
    elif "--info" in before_dashes:
        from tui.commands.info import print_info

        print_info()
    else:
        _call_root(words)


def _call_command(app: CommandApp, words: Sequence[str], command: str) -> None:
    """Call a command, or a command of a group such as `rankboard lab`."""
    from tui.flags.command_help import print_help
    from tui.flags.mistakes import Mistakes
    from tui.flags.parsing import CommandApp, Flags, parse
    from tui.flags.unknown_command import refuse_command

    before_dashes = list(takewhile("--".__ne__, words))
    # cyclopts counts --help among the commands of an app.
    subcommands = [name for name in app if not name.startswith("-")]
    if subcommands and words and words[0] in subcommands:
        subcommand = app[words[0]]
        assert isinstance(subcommand, CommandApp)
        _call_command(subcommand, words[1:], f"{command} {words[0]}")
        return
    # Before the words are parsed, so that help is given beside any mistake.
    if any(flag in before_dashes for flag in HELP):
        print_help(app)
        return
    if subcommands and not words:
        print_help(app)
    with refusing():
        if subcommands and not words:
            # After its help, as nothing was done: the exit code has to say so.
            raise UsageError(f"see {command} --help")
        if subcommands:
            raise UsageError(refuse_command(command, words[0], subcommands))
        parsed_command = parse(app, words, Flags(app, command))
        mistakes = Mistakes(parsed_command.mistakes)
        if "mistakes" not in parsed_command.extras:  # the command finds no more of them
            mistakes.refuse()
    parsed_command.call({"mistakes": mistakes})


def _call_root(words: Sequence[str]) -> None:
    """Start a run: the words name no command. After `--` stands a script."""
    from tui.flags import torchrun
    from tui.flags.mistakes import Mistakes
    from tui.flags.parsing import Flags, parse

    app = load_root()
    flags = Flags(app, "rankboard")
    before_dashes = list(takewhile("--".__ne__, words))
    after_dashes = words[len(before_dashes) + 1 :]
    with refusing():
        own_words, torchrun_flags = torchrun.take_out_flags(before_dashes, flags.names)
        given_words, remaining_words = flags.split(own_words)
        if any(flag in given_words for flag in HELP):
            _print_root_help(is_whole=(*given_words, *remaining_words)[-1] == WHOLE)
            return
        script_line = torchrun.ScriptLine()
        # Other words before -- are refused below, with or without a script.
        if "--" in words and not remaining_words:
            script_line = torchrun.parse_script_line(after_dashes, torchrun_flags)
            script_line = replace(script_line, typed=tuple(words))
        elif torchrun_flags and not set(remaining_words).intersection(COMMANDS):
            _refuse_flags_of_torchrun(before_dashes, next(iter(torchrun_flags)))
        parsed_command = parse(app, given_words, flags)
        mistakes = Mistakes(parsed_command.mistakes)
        if remaining_words:
            mistakes.refuse()  # what follows may be no command for that reason
            _refuse_words(remaining_words, given_words)
    parsed_command.call({"mistakes": mistakes, "line": script_line})


def _print_root_help(*, is_whole: bool) -> None:
    """Print what most people need of all flags and commands, or everything."""
    from tui.flags.command_help import print_help, print_overview, print_sync_options

    if is_whole:
        print_help(make_whole_app())
        print_sync_options()
        return
    other_commands = [name for name in COMMANDS if name not in COMMON_COMMANDS]
    hint = (
        f"More commands: {', '.join(other_commands)}.\n"
        f"rankboard --help {WHOLE} shows all options and commands, rankboard COMMAND --help those "
        "of a command."
    )
    print_overview(make_whole_app(COMMON_COMMANDS), COMMON_FLAGS, hint)


def _refuse_flags_of_torchrun(words: Sequence[str], flag: str) -> None:
    """Say where flags of torchrun stand, of which `flag` is the first. Raises: UsageError."""
    from tui.flags.torchrun import find_flag

    own_words = list(takewhile(lambda word: find_flag(word) != flag, words))
    torchrun_words = words[len(own_words) :]
    command_line = shlex.join([*own_words, "--", *torchrun_words])
    problem = f"{torchrun_words[0]} is a flag of torchrun; write it after --, before your script"
    raise UsageError(f"{problem}: rankboard {command_line}")


def _refuse_words(words: Sequence[str], flags: Sequence[str]) -> None:
    """Refuse words that stand behind the flags of a run. Raises: UsageError."""
    from tui.flags.unknown_command import advise_command

    if words[0] not in COMMANDS:
        raise UsageError(advise_command(words, flags, COMMANDS))
    flag_names = ", ".join(word.partition("=")[0] for word in flags if word.startswith("-"))
    raise UsageError(
        f"{flag_names} does not apply to {words[0]}; put options after the name of the command"
    )


def make_root_app() -> CommandApp:
    """Make the command without a name, which starts a run."""
    from tui.commands.run import run
    from tui.flags.command_help import ROOT_USAGE, make_app

    return make_app("rankboard", run, usage=ROOT_USAGE)


load_root = cache(make_root_app)
"""Load the command without a name once. The one for the help gets all others added."""


def make_whole_app(commands: Sequence[str] = COMMANDS) -> CommandApp:
    """Make the command line with all commands, or with these, for its help and for completion."""
    from tui.commands.info import print_info
    from tui.flags.common import OPTIONS

    app = make_root_app()
    app["--help"].help = f"show what most people need; --help {WHOLE}: everything"
    app.command(print_version, name="--version", help="print the version", group=OPTIONS)
    app.command(
        print_info, name="--info", help="print what a report of a bug needs to say", group=OPTIONS
    )
    app.register_install_completion_command(
        help="complete words of this command in the shell, from the next one on", group=OPTIONS
    )
    for sort_place, command_name in enumerate(commands):
        command = load(command_name)
        # cyclopts would sort them by name.
        command.sort_key = sort_place
        app.command(command)
    return app


def make_completed_app(words: Sequence[str]) -> CommandApp:
    """Make the part of the command line to which these words belong, as its user waits for a
    completion of them."""
    from tui.flags.command_help import make_app

    if not words or words[0] not in COMMANDS:
        return load_root()
    app = make_app("rankboard", None)
    app.command(load(words[0]))
    return app


@cache
def load(name: str) -> CommandApp:
    """Load the command, or the group of commands, of this name."""
    from tui.flags.command_help import make_app

    module = import_module(f"tui.commands.{name}")
    command_group: CommandApp | None = getattr(module, "app", None)
    return command_group or make_app(f"rankboard {name}", getattr(module, name))


def print_version() -> None:
    """Print the version."""
    from importlib import metadata

    echo(f"rankboard {metadata.version('rankboard')}")
