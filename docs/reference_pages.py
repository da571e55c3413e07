"""Renew the parts of the reference that are written from the code: flags, commands and keys.

python docs/reference_pages.py            # make reference

A page says where such a part begins and ends:

    <!-- written by docs/reference_pages.py: options -->
    …
    <!-- end -->
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from command_help import (
    list_panels,
    list_subcommands,
    list_sync_options,
    read_description,
    read_label,
    read_usage,
)
from cyclopts import App

from remote.cluster.file_schema import make_file_schema
from remote.cluster.hosts import HOSTS_FILE
from tui.commands.cli import make_whole_app

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
WIDTH = 118
GROUPS = {
    "commands-hosts.md": ("doctor", "trust", "setup", "config"),
    "commands-runs.md": ("ps", "runs", "stop", "prune"),
    "commands-watch.md": ("attach", "wait", "open", "watch", "serve", "logs", "events"),
    "commands-results.md": ("study", "compare", "report", "export", "parse", "formats"),
    "commands-lab.md": ("lab",),
}
"""The commands by the pages that describe them, in the order of the pages."""
PART = re.compile(
    r"(?P<begin><!-- written by docs/reference_pages\.py: (?P<name>[\w.-]+) -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)
QUOTE = "'"
CODE = re.compile(
    r"""(
        (?<=\s)'[^'\s][^']*'(?=[\s,;.)]|$)    # a quotation, but no apostrophe
        | (?<![\w-])--?[a-zA-Z][\w-]*         # a flag
        | \w+[ ]=[ ](?:\[[^]]*\]|\{[^}]*\}|"[^"]*"|'[^']*'|[\d.]*\d)    # a setting
        | \w+_\w+(?:=\w+)?                   # a name
        | \w+=\d+
    )""",
    re.VERBOSE,
)
"""What a user may type, within a text."""
SHARED_PANELS = "Job: "
"""How the boxes are called that several commands share."""


def main() -> None:
    """Renew all pages."""
    for page in find_pages():
        page.write_text(renew(page.read_text()))


def find_pages() -> list[Path]:
    """Return the pages with parts that are written from the code."""
    return [page for page in sorted(REFERENCE.glob("*.md")) if PART.search(page.read_text())]


def renew(text: str) -> str:
    """Return the text of a page with its parts as the code is now."""

    def write(part: re.Match[str]) -> str:
        lines = WRITERS[part["name"]]()
        return "\n".join((part["begin"], *lines, part["end"]))

    return PART.sub(write, text)


def write_options() -> Iterator[str]:
    """Yield the flags of a run, and the options of the sync methods."""
    for panel, entries in list_panels(make_whole_app()):
        yield from (f"## {str(panel.title).partition(': rankboard')[0]}", "")
        for entry in entries:
            yield from write_item(f"`{read_label(entry)}`", read_description(entry))
        yield ""
    yield from ("## Options of the sync methods", "")
    for method, declared_options in list_sync_options():
        yield from (f"With `--sync {method}`, `--sync-option` sets:", "")
        for name, description in declared_options:
            yield from write_item(f"`{name}`", description)
        yield ""


def write_overview() -> Iterator[str]:
    """Yield all commands, with a link to each."""
    app = make_whole_app()
    for page, names in GROUPS.items():
        for name in names:
            link = f"[`rankboard {name}`]({page}#rankboard-{name})"
            yield from write_item(link, read_first_sentence(app[name]))
    yield ""


def read_first_sentence(app: App) -> str:
    """Return what a command does, in a sentence."""
    sentence, _, _ = app.help.strip().partition("\n\n")
    return re.split(r"(?<=\.) ", sentence)[0].rstrip(".")


def write_commands(page: str) -> Iterator[str]:
    """Yield what is said of the commands of a page."""
    app = make_whole_app()
    for name in GROUPS[page]:
        yield from write_command(app[name], f"rankboard {name}", "##")


def write_command(app: App, command: str, heading: str) -> Iterator[str]:
    """Yield what is said of a command, and of the commands of a group."""
    yield from (f"{heading} {command}", "")
    subcommands = list_subcommands(app)
    if not subcommands:
        yield from ("```text", *read_usage(app), "```", "")
    for paragraph in app.help.strip().split("\n\n"):
        yield from write_paragraph(paragraph)
    is_shared = False
    for panel, entries in list_panels(app):
        if str(panel.title).startswith(SHARED_PANELS):
            is_shared = True
            continue
        for entry in entries:
            yield from write_item(f"`{read_label(entry)}`", read_description(entry))
    yield ""
    if is_shared:
        yield from ("It takes the [options of the job](options.md#job-method) as well.", "")
    for name in subcommands:
        yield from write_command(app[name], f"{command} {name}", "###")


def write_paragraph(paragraph: str) -> Iterator[str]:
    """Yield a paragraph of a help; examples and exit codes stay as they are."""
    heading, _, block = paragraph.partition("\n")
    if not block:
        yield from (*wrap(mark(paragraph)), "")
    elif heading == "Examples:":
        yield from ("<!-- not run: examples -->", "```sh", textwrap.dedent(block), "```", "")
    else:
        yield from (heading, "", "```text", textwrap.dedent(block), "```", "")


def write_item(term: str, description: str) -> Iterator[str]:
    """Yield an item of a list, in lines that are short."""
    lines = wrap(f"{term}: {mark(description)}")
    yield f"- {lines[0]}"
    yield from (f"  {line}" for line in lines[1:])


def wrap(text: str) -> list[str]:
    """Break text into short lines, but not within code."""
    # A space within code is hidden from the one who breaks lines.
    hidden = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(hidden, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def mark(text: str) -> str:
    """Return text of a help as Markdown: what a user may type is code, and no sign means more."""
    parts = CODE.split(text)
    return "".join(
        f"`{unquote(part)}`" if index % 2 else re.sub(r"([*_<>\[\]|`])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


def unquote(code: str) -> str:
    """Return what is quoted, or else the code."""
    return code.strip(QUOTE) if code.startswith(QUOTE) else code


def write_hosts_example() -> Iterator[str]:
    """Yield the commented hosts file of the repository."""
    yield from ("```toml", (ROOT / "hosts.toml").read_text().rstrip(), "```", "")


def write_keys() -> Iterator[str]:
    """Yield the keys of each table of hosts.toml."""
    tables = make_file_schema(HOSTS_FILE)["properties"]
    keys_of_host = tables["host"]["items"]["properties"]
    keys_of_all_hosts = tables["defaults"]["properties"]
    own_keys = {key: keys_of_host[key] for key in keys_of_host if key not in keys_of_all_hosts}
    yield from write_table_of_keys("[cluster]", tables["cluster"]["properties"])
    yield from write_table_of_keys("[[host]]", own_keys)
    yield from write_table_of_keys("[defaults]` and `[[host]]", keys_of_all_hosts)
    yield from write_table_of_keys("[[format]]", tables["format"]["items"]["properties"])


def write_table_of_keys(title: str, keys: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to write for each key of a table."""
    yield from (f"### `{title}`", "")
    for key, schema in keys.items():
        description = schema["description"]
        if schema.get("default"):
            description += f" Default: {json.dumps(schema['default'])}."
        yield from write_item(f"`{key}`", description)
    yield ""


WRITERS: Mapping[str, Callable[[], Iterator[str]]] = {
    "options": write_options,
    "overview": write_overview,
    **{page: partial(write_commands, page) for page in GROUPS},
    "hosts-example": write_hosts_example,
    "keys": write_keys,
}
"""What writes each part."""


if __name__ == "__main__":
    main()
