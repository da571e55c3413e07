"""Make commands, and print their help."""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from training import options, registry
from tui.flags.common import ARGUMENTS, COMMANDS, OPTIONS
from tui.flags.parsing import CommandApp

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

ROOT_USAGE = """\
Usage: rankboard [OPTIONS]
       rankboard [OPTIONS] -- PROGRAM [ARGS]...
       rankboard COMMAND [ARGS]..."""
PARAMETERS = Parameter(
    negative="",
    # Otherwise cyclopts refuses a flag that is given twice. Here, the last one counts.
    allow_repeating=True,
    show_default=False,  # the help of a flag says its default, as it says its choices
    show_choices=False,
)


def make_app(
    command: str, function: Callable[..., None] | None, help: str = "", usage: str = ""
) -> CommandApp:
    """Make the command of a function, whose docstring is the help. `command` is what the user
    writes, such as `rankboard lab up`."""
    app = CommandApp(
        name=command.rpartition(" ")[2],
        usage=usage,
        help=_join_lines(help or inspect.getdoc(function) or ""),
        # cyclopts would read the docstrings as Markdown, which they are not.
        help_format="plaintext",
        help_flags=("--help", "-h"),
        # The command line itself answers --version, without any command.
        version_flags=(),
        group_arguments=ARGUMENTS,
        group_parameters=OPTIONS,
        group_commands=COMMANDS,
        default_parameter=PARAMETERS,
        # Otherwise cyclopts prints what a function returns, and ends the process.
        result_action="return_value",
    )
    app["--help"].group = (OPTIONS,)
    app["--help"].help = "show this message"
    if function:
        app.default(function)
        app.usage = usage or _write_usage(command, app)
    else:
        app.usage = f"Usage: {command} [OPTIONS] COMMAND [ARGS]..."
    return app


def _write_usage(command: str, app: CommandApp) -> str:
    usage_words = []
    for argument in app.look_at_arguments():
        argument_name = argument.names[0]
        if not argument.parse or argument_name.startswith(("-", "*")):
            continue
        argument_word = f"[{argument_name}]"
        # Some names have brackets of their own, where a parameter may be left out only at times.
        if argument.required or argument_name.startswith("["):
            argument_word = argument_name
        takes_several = argument.token_count()[1] and not argument_name.endswith("...")
        usage_words.append(f"{argument_word}..." if takes_several else argument_word)
    return " ".join((f"Usage: {command} [OPTIONS]", *usage_words))


def _join_lines(text: str) -> str:
    """Put each paragraph into one line; indented lines, such as examples, stay as they are."""
    # Printed as plain text, lines would end where they do in the source, not at the right edge.
    return re.sub(r"(?<!\n)\n(?![\n ])", " ", text)


def print_help(app: App) -> None:
    """Print the help of a command."""
    # Only the help needs rich, whose import would slow every other command.
    from cyclopts.help import DefaultFormatter

    console = _make_console()
    _print_head(console, app, app.help.rstrip())
    for panel in collect_panels(app):
        DefaultFormatter()(console, console.options, panel)


def print_overview(app: App, flags: Sequence[str], hint: str) -> None:
    """Print what most people need of the help of a command: what it does, examples, these flags,
    the commands that the app has, and a last line."""
    from cyclopts.help import DefaultFormatter, HelpPanel

    console = _make_console()
    first_paragraph, *paragraphs = app.help.split("\n\n")
    examples = [text for text in paragraphs if text.startswith("Examples:")]
    _print_head(console, app, "\n\n".join((first_paragraph, *examples)))
    panels = collect_panels(app)
    entries = [entry for panel in panels for entry in panel.entries if panel.format == "parameter"]
    # The flags in the order of the caller, whatever boxes they stand in.
    entry_by_flag = {entry.positive_names[0]: entry for entry in entries if entry.positive_names}
    flag_entries = [entry_by_flag[flag] for flag in flags]
    flag_panel = HelpPanel(format="parameter", title=OPTIONS.name, entries=flag_entries)
    command_panels = [panel for panel in panels if panel.title == COMMANDS.name]
    for panel in (flag_panel, *command_panels):
        DefaultFormatter()(console, console.options, panel)
    console.print(hint)


def collect_panels(app: App) -> list[HelpPanel]:
    """Return the boxes of the help of a command, with the flags and commands in them."""
    from rich.console import Console

    panels: list[HelpPanel] = []

    def collect(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        panels.append(panel)

    app.help_formatter = collect
    app["--help"].show = True  # cyclopts hides it in a command of a group
    app.help_print([], console=Console(file=io.StringIO()))
    return panels


def _make_console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, highlight=False)


def _print_head(console: Console, app: App, description: str) -> None:
    """Print how a command is called, and the text about it. cyclopts would leave out the examples
    and the exit codes."""
    console.print(app.usage, end="\n\n")
    console.print(description, end="\n\n")


def print_sync_options() -> None:
    """Print a box with the options of each sync method that has any."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    console = Console(file=sys.stdout)
    for method in registry.list_names("sync"):
        option_table = Table.grid(padding=(0, 1))
        for option in options.declared_options(method):
            option_table.add_row(options.describe_options([option]), option.help)
        if option_table.rows:
            box_title = f"--sync-option, with --sync {method}"
            console.print(Panel(option_table, title=box_title, title_align="left"))
