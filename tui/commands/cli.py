"""The command line: all commands of `rankboard`."""

from __future__ import annotations

import shlex
import sys
from functools import cache
from importlib import import_module

import typer
from typer.core import TyperCommand, TyperGroup

from tui.commands import run
from tui.flags import torchrun
from tui.flags.job import with_job_flags
from tui.flags.policy import with_policy_flags
from tui.flags.script import with_script_flags
from tui.flags.selection import with_host_flags
from tui.flags.usage import Command, JobCommand, Rankboard
from tui.kit import palette
from tui.kit.exit import UsageError, refusing

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


JOB_COMMANDS = ("doctor", "study")
"""Those that take the flags of a job."""


class CommandLine(Rankboard):
    """The command line, which loads a command when it is asked for: loading all of them takes
    longer than most commands do. After `--` stands a program of the user's own."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Take the program out of the arguments, and parse the others."""
        own = [name for one in self.params for name in (*one.opts, *one.secondary_opts)]
        before, dashes, words = _split(args)
        ours, theirs = torchrun.taken_out(before, own)
        if not dashes:
            self._refuse_flags_of_torchrun(ctx, before, theirs)
        elif not self._names_command(ctx, ours):
            with refusing():
                ctx.meta[torchrun.PROGRAM] = torchrun.read(words, theirs)
            args = ours
        return super().parse_args(ctx, args)

    def _refuse_flags_of_torchrun(
        self, ctx: typer.Context, args: list[str], theirs: list[str]
    ) -> None:
        """Say where flags of torchrun stand, unless they are those of another command."""
        at = args.index(theirs[0]) if theirs else 0
        if theirs and not set(args[:at]).intersection(self.list_commands(ctx)):
            line = shlex.join([*args[:at], "--", *args[at:]])
            with refusing():
                raise UsageError(
                    f"{theirs[0]} is a flag of torchrun; write it after --, before your program: "
                    f"rankboard {line}"
                )

    def _names_command(self, ctx: typer.Context, args: list[str]) -> bool:
        """Whether the name of a command is among these arguments, to which the others belong."""
        return bool(self.make_parser(ctx).parse_args([*args])[1])

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """The command of this name, if there is one."""
        return load(cmd_name) if cmd_name in COMMANDS else None


def _split(args: list[str]) -> tuple[list[str], bool, list[str]]:
    """The arguments before the first `--`, whether there is one, and those after it."""
    at = args.index("--") if "--" in args else len(args)
    return args[:at], at < len(args), args[at + 1 :]


def main() -> None:
    """Run the `rankboard` command."""
    palette.make_fit(sys.stdout, sys.stderr)
    application()()


def application() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(cls=CommandLine, add_completion=False, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["-h", "--help"]}
    app.callback(invoke_without_command=True, context_settings=settings)(
        with_job_flags(with_policy_flags(with_script_flags(with_host_flags(run.run))))
    )
    return app


@cache
def load(name: str) -> TyperCommand | TyperGroup:
    """Load the command, or the group of commands, of this name."""
    module = import_module(f"tui.commands.{name}")
    app = getattr(module, "app", None)
    if not app:
        app = typer.Typer(add_completion=False)
        kind = JobCommand if name in JOB_COMMANDS else Command
        app.command(name, cls=kind)(getattr(module, name))
    command: TyperCommand | TyperGroup = typer.main.get_command(app)  # type: ignore[assignment]
    return command
