"""The lines of a TOML file at which its keys stand. The parser of Python does not tell them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import tomllib

KeyPath = tuple[str | int, ...]
"""Where a value is: keys, and the numbers of tables in lists, from 0 on."""
HEADER = re.compile(r"\s*\[")


def find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1 on, at which each key and each table of a TOML text begins.

    What stands within a list or an inline table has the line of the statement. Raises:
    TOMLDecodeError.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for line_number, statement in _split_statements(text):
        content = tomllib.loads(statement)
        if HEADER.match(statement):
            table = _enter(content, counts)
            lines.setdefault(table, line_number)
            if isinstance(table[-1], int):  # the list begins with its first table
                lines.setdefault(table[:-1], line_number)
        else:
            for path in _list_paths(content):
                lines.setdefault((*table, *path), line_number)
    return lines


def find_line(lines: dict[KeyPath, int], *path: str | int) -> int:
    """Return the line of a value, or else of the table that it is in; 0 if there is neither."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the statements of a text, each with the number of its first line.

    A statement is whole as soon as it can be parsed: the end of a line ends it unless a text, a
    list or an inline table is open, and then it is no TOML yet.
    """
    statement = ""
    first_number = 1
    # As TOML counts lines, which does not know the other ends of lines of `splitlines`.
    for line_number, line in enumerate(text.split("\n"), start=1):
        if not statement:
            first_number = line_number
            if not line.strip() or line.lstrip().startswith("#"):
                continue
        statement += f"{line}\n"
        try:
            tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        yield first_number, statement
        statement = ""
    if statement:
        tomllib.loads(statement)  # raises, as no statement ends


def _enter(header: dict[str, Any], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the path of the table that a header begins. `counts`: how many tables each list of
    them has so far, by its path."""
    path: KeyPath = ()
    content: Any = header
    while isinstance(content, dict) and content:
        [(name, content)] = content.items()
        path = (*path, name)
        if isinstance(content, list):  # [[name]] begins a table of its own
            counts[path] = counts.get(path, 0) + 1
            return (*path, counts[path] - 1)
        if path in counts:  # [name.other] goes on in the last one
            path = (*path, counts[path] - 1)
    return path


def _list_paths(content: Any) -> Iterator[KeyPath]:
    """Yield the paths of all values in the content of a statement."""
    if isinstance(content, dict):
        items: Iterator[tuple[str | int, Any]] = iter(content.items())
    elif isinstance(content, list):
        items = iter(enumerate(content))
    else:
        return
    for name, value in items:
        yield (name,)
        for path in _list_paths(value):
            yield (name, *path)
