"""The help of every command, and the error for a command that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from training import options, registry
from training.mistake import Mistake
from training.registry import did_you_mean
from tui.flags import arguments
from tui.kit.exit import UsageError, refusing

STARTS = ("run", "start", "launch", "train", "exec")
LISTS = ("ls", "list", "status", "jobs", "top", "show")
REMOVES = ("prune", "stop", "down")
"""Commands that end or delete something: they are never suggested for a typing error."""


@contextmanager
def _refusing_arguments(context: typer.Context, *, all_at_once: bool = True) -> Iterator[None]:
    """End the command where its arguments have mistakes. Without `all_at_once`, those that the
    parser can go on behind are left to the command."""
    mistakes: list[Mistake] = []
    try:
        yield
    except typer.TyperException as error:
        mistakes = [arguments.find_missing(error, context.command_path)]
    found = context.meta.get(arguments.KEY, [])
    if mistakes or (found and all_at_once):
        with refusing():
            raise UsageError("\n".join(map(str, found or mistakes)))


class Command(TyperCommand):
    """A command such as `rankboard ps`, with a plain help, and an answer to all mistakes in its
    arguments."""

    refuses_at_once = True
    """Whether mistakes in its arguments end it before it is called."""

    def make_parser(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Make a parser that goes on behind a mistake."""
        return arguments.Parser(super().make_parser(ctx), ctx)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; where there are mistakes in them, end with all of them."""
        with _refusing_arguments(ctx, all_at_once=self.refuses_at_once):
            return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help."""
        _simplify(self, ctx)
        super().format_help(ctx, formatter)


class JobCommand(Command):
    """A command with the flags of a job, in which it finds more mistakes: it tells them all."""

    refuses_at_once = False


class Commands(TyperGroup):
    """A group of commands such as `rankboard lab`, with a plain help and an answer to a command
    that does not exist, and to all mistakes in its arguments."""

    refuses_at_once = True
    """Whether mistakes in its own options end it before it is called."""

    def make_parser(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Make a parser that goes on behind a mistake."""
        return arguments.Parser(super().make_parser(ctx), ctx)

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments; where there are mistakes in them, end with all of them."""
        with _refusing_arguments(ctx, all_at_once=self.refuses_at_once):
            return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help."""
        _simplify(self, ctx)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """The command that the arguments name; where there is none, say what to write instead."""
        if args[0] in self.list_commands(ctx) or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        wrong = ctx.meta.get(arguments.KEY, [])  # what follows may be no command for that reason
        with refusing():
            raise UsageError("\n".join(map(str, wrong)) or self.answer(ctx, args))

    def answer(self, ctx: typer.Context, words: list[str]) -> str:
        """What to tell somebody who wrote a command that does not exist."""
        return _unknown(f"rankboard {self.name}", words[0], self.list_commands(ctx))


class Rankboard(Commands):
    """The command itself: without the name of another command it starts a run."""

    refuses_at_once = False  # the command finds more of them

    def get_usage(self, ctx: typer.Context) -> str:  # type: ignore[override]
        """The first line of the help and of an error."""
        return (
            "Usage: rankboard [OPTIONS]\n"
            "       rankboard [OPTIONS] -- PROGRAM [ARGS]...\n"
            "       rankboard COMMAND [ARGS]..."
        )

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Print the help, which ends with the options of each sync method."""
        super().format_help(ctx, formatter)
        _print_sync_options()

    def answer(self, ctx: typer.Context, words: list[str]) -> str:
        """What to tell somebody who wrote a command that does not exist."""
        return answer(words, given(ctx), self.list_commands(ctx))


def given(context: typer.Context) -> dict[str, Any]:
    """The flags that are on the command line, by name."""
    sources = {name: str(context.get_parameter_source(name)) for name in context.params}
    return {
        name: context.params[name]
        for name, source in sources.items()
        if source.endswith("COMMANDLINE")
    }


def option(context: typer.Context, name: str) -> str:
    """The option of a parameter as it is written on the command line, such as `--run`."""
    known = next(one for one in context.command.params if one.name == name)
    return (*known.opts, *known.secondary_opts)[0]


def answer(words: list[str], flags: dict[str, Any], commands: list[str]) -> str:
    """What to tell somebody who wrote a command that does not exist, with what followed it, behind
    these flags."""
    word = words[0]
    what = f"rankboard has no command {word!r}. "
    if any(_is_program(one) for one in (word, *words[1:2])):
        if word in STARTS:
            words = words[1:]
        return (
            "To run a program of your own, put -- before it: rankboard --run "
            f"{'… ' if flags else ''}-- {shlex.join(words)}"
        )
    if word in STARTS:
        rest = shlex.join(words[1:])
        return (
            f"{what}To start a run, write: rankboard --run {'… ' if flags else ''}{rest}".rstrip()
        )
    if word in LISTS:
        return f"{what}To list runs, write: rankboard ps, or rankboard runs for those recorded here"
    if word.endswith(".toml"):
        return f"{what}To use a hosts file, write: rankboard --hosts {shlex.quote(word)}"
    bare = [one for one in flags.get("sync_option") or () if "=" not in one]
    if bare:
        return (
            f"{word!r} is not a command. Write an option and its value as one word: --sync-option "
            f"{bare[-1]}={word}"
        )
    if not word.isidentifier() and not did_you_mean(word, commands):
        return f"{word!r} is not a command: a flag takes one value; see rankboard --help"
    return _unknown("rankboard", word, commands)


def _unknown(command: str, word: str, known: list[str]) -> str:
    near = did_you_mean(word, [name for name in known if name not in REMOVES])
    return (
        f"{command} has no command {word!r}{f'{near} ' if near else '. '}{command} --help lists "
        "all commands"
    )


def _is_program(word: str) -> bool:
    return word.endswith((".py", ".sh")) or word in ("python", "python3", "torchrun", "mpirun")


def _print_sync_options() -> None:
    """Print a panel with the options of each sync method that has any."""
    # Only this help needs rich, whose import would slow every other command.
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    for method in registry.names("sync"):
        table = Table.grid(padding=(0, 1))
        for option in options.declared(method):
            table.add_row(options.describe([option]), option.help)
        if table.rows:
            title = f"--sync-option, with --sync {method}"
            panel = Panel(table, title=title, title_align="left", border_style="dim")
            Console().print(panel)


def _joined(text: str) -> str:
    """The text with one line per paragraph; indented lines, such as examples, stay as they are."""
    return re.sub(r"(?<!\n)\n(?![\n ])", " ", text)


def _simplify(command: TyperCommand | TyperGroup, context: typer.Context) -> None:
    """Make the help of a command plain: each default once and in one style, no type beside a
    switch. The command is not run after that."""
    command.help = _joined(command.help or "")
    for one in command.get_params(context):
        if isinstance(one, TyperOption):
            _simplify_option(one)
        elif isinstance(one, TyperArgument):
            one.display_type_rich = lambda ctx: None  # type: ignore[method-assign]


def _simplify_option(option: TyperOption) -> None:
    value = option.default
    if option.name == "help":
        option.help = "show this message"
    if option.is_flag:
        option.metavar = ""
        value = "on" if value and option.secondary_opts else None
    if isinstance(option.show_default, str):
        value = option.show_default
    if option.show_default and value not in (None, "", 0, ()):
        option.help = f"{option.help} (default: {getattr(value, 'value', value)})"
    option.show_default = False
    option.min = option.max = None
