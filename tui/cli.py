"""The command line: all commands of `rankboard`."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

import typer
from typer.core import TyperCommand, TyperGroup

from tui import palette
from tui.commands import run
from tui.flags.job import with_job_flags
from tui.flags.policy import with_policy_flags
from tui.flags.script import with_script_flags
from tui.flags.selection import with_host_flags
from tui.text.usage import Command, Rankboard

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
    "compare",
    "export",
    "report",
    "lab",
)
"""The commands, in the order of the help. Each is in the module of `tui.commands` with its name."""


class CommandLine(Rankboard):
    """The command line, which loads a command when it is asked for: loading all of them takes
    longer than most commands do."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        """The command of this name, if there is one."""
        return load(cmd_name) if cmd_name in COMMANDS else None


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
    if not (app := getattr(module, "app", None)):
        app = typer.Typer(add_completion=False)
        app.command(name, cls=Command)(getattr(module, name))
    command: TyperCommand | TyperGroup = typer.main.get_command(app)  # type: ignore[assignment]
    return command
