"""Write the manual page of rankboard, from the same flags and docstrings as its --help.

python docs/man_page.py > rankboard.1
man ./rankboard.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from command_help import (
    list_panels,
    list_subcommands,
    list_sync_options,
    read_description,
    read_label,
    read_usage,
)
from cyclopts import App
from cyclopts.help import HelpEntry, HelpPanel

from tui.commands.cli import COMMANDS, make_whole_app

HEADINGS = {"Examples:": "EXAMPLES", "Exit codes:": "EXIT STATUS"}
"""The blocks of a docstring that have sections of their own in the page of rankboard itself."""


def main() -> None:
    """Print the page."""
    print("\n".join(write_page()))


def write_page() -> Iterator[str]:
    """Yield the lines of the page, in the language of man."""
    app = make_whole_app()
    title, *paragraphs = app.help.strip().split("\n\n")
    version = metadata.version("rankboard")
    yield f'.TH RANKBOARD 1 "" "rankboard {escape(version)}" "User Commands"'
    yield from (".SH NAME", f"rankboard \\- {escape(title.rstrip('.'))}")
    yield from (".SH SYNOPSIS", *write_usage(app))
    yield ".SH DESCRIPTION"
    blocks: list[str] = []
    for paragraph in paragraphs:
        heading = HEADINGS.get(paragraph.partition("\n")[0])
        if heading:
            blocks += [f".SH {heading}", *write_block(paragraph.partition("\n")[2])]
        else:
            yield from write_paragraph(paragraph)
    yield ".SH OPTIONS"
    yield from write_panels(app)
    yield from write_sync_options()
    yield ".SH COMMANDS"
    for name in COMMANDS:
        yield from write_command(app[name], f"rankboard {name}")
    yield from blocks


def write_command(app: App, command: str) -> Iterator[str]:
    """Yield what is said of a command, and of the commands of a group."""
    yield f".SS {escape(command)}"
    yield from write_usage(app)
    for paragraph in app.help.strip().split("\n\n"):
        yield from write_paragraph(paragraph)
    yield from write_panels(app)
    for name in list_subcommands(app):
        yield from write_command(app[name], f"{command} {name}")


def write_usage(app: App) -> Iterator[str]:
    """Yield how a command is called, a line for each way."""
    yield ".nf"
    yield from map(escape, read_usage(app))
    yield ".fi"


def write_paragraph(paragraph: str) -> Iterator[str]:
    """Yield a paragraph; indented lines, such as examples, stay as they are."""
    heading, _, rest = paragraph.partition("\n")
    yield from (".PP", escape(heading))
    if rest:
        yield from write_block(rest)


def write_block(text: str) -> Iterator[str]:
    """Yield lines that stay as they are, further to the right."""
    yield from (".RS 4", ".nf")
    yield from (escape(line.removeprefix("  ")) for line in text.splitlines())
    yield from (".fi", ".RE")


def write_panels(app: App) -> Iterator[str]:
    """Yield the boxes of the help, but that of the commands, which follow with all that they
    take."""
    for panel, entries in list_panels(app):
        yield from write_panel(panel, entries)


def write_panel(panel: HelpPanel, entries: list[HelpEntry]) -> Iterator[str]:
    """Yield a box, with the flags or arguments in it."""
    yield from (".PP", f"\\fB{escape(str(panel.title))}\\fR", ".RS 2")
    for entry in entries:
        yield from (".TP", f"\\fB{escape(read_label(entry))}\\fR")
        yield escape(read_description(entry))
    yield ".RE"


def write_sync_options() -> Iterator[str]:
    """Yield the options of each sync method that has any."""
    for method, declared_options in list_sync_options():
        yield from (".PP", escape(f"--sync-option, with --sync {method}"), ".RS 2")
        for name, description in declared_options:
            yield from (".TP", f"\\fB{escape(name)}\\fR", escape(description))
        yield ".RE"


def escape(text: str) -> str:
    """Return a text without what means something to man."""
    escaped_text = text.replace("\\", "\\e").replace("-", "\\-")
    # Old versions of man read bytes, not UTF-8.
    ascii_text = re.sub(r"[^\0-~]", lambda found: f"\\[u{ord(found[0]):04X}]", escaped_text)
    # A line that begins so would be a request.
    return re.sub(r"^(?=[.'])", r"\\&", ascii_text)


if __name__ == "__main__":
    main()
