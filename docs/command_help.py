"""What --help says of the commands, for the pages that are written from it."""

from __future__ import annotations

import io
from collections.abc import Iterator

from cyclopts import App
from cyclopts.help import HelpEntry, HelpPanel
from rich.console import Console

from training import options, registry
from tui.flags.command_help import collect_panels
from tui.flags.common import COMMANDS

NO_WRAPPING = 100_000
"""Columns of a console in which no description is wrapped."""


def list_subcommands(app: App) -> list[str]:
    """Return the names of the commands of a group."""
    # cyclopts counts --help among the commands of an app.
    return [name for name in app if not name.startswith("-")]


def read_usage(app: App) -> list[str]:
    """Return how a command is called, a line for each way."""
    return [line.removeprefix("Usage:").strip() for line in str(app.usage).splitlines()]


def list_panels(app: App) -> Iterator[tuple[HelpPanel, list[HelpEntry]]]:
    """Yield the boxes of the help and their entries, but not the box of the commands.

    The flag that prints the help itself is left out.
    """
    for panel in collect_panels(app):
        entries = [entry for entry in panel.entries if "--help" not in entry.positive_names]
        if panel.title != COMMANDS.name and entries:
            yield panel, entries


def read_label(entry: HelpEntry) -> str:
    """Return the names of a flag or an argument, and what its value is called."""
    return " ".join(entry.display_labels_with_metavar)


def read_description(entry: HelpEntry) -> str:
    """Return what is said of a flag, in one line."""
    console = Console(file=io.StringIO(), width=NO_WRAPPING, markup=False, highlight=False)
    with console.capture() as captured:
        console.print(entry.description or "")
    return captured.get().strip()


def list_sync_options() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each sync method that has options, and these with what they do."""
    for method in registry.list_names("sync"):
        declared_options = options.declared_options(method)
        if declared_options:
            yield (
                method,
                [(options.describe_options([option]), option.help) for option in declared_options],
            )
