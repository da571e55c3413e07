"""Write TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
INDENT = " " * 4


def format_toml_table(head: str, table: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table below `head`, such as "[job]"; "" for the top of a file."""
    lines = [head] if head else []
    for key, value in table.items():
        lines.append(f"{_format_key(key)} = {_format_value_of_key(value)}")
    return lines


def join_toml_tables(tables: Iterable[list[str]]) -> str:
    """Return the text of a file with an empty line between its tables."""
    return "\n\n".join("\n".join(lines) for lines in tables if lines) + "\n"


def format_toml_value(value: Any) -> str:
    """Return a text, a number, a list or a table of such as one line."""
    if isinstance(value, Mapping):
        pairs = [f"{_format_key(key)} = {format_toml_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml_value, value))}]"
    # JSON has no infinity and no NaN.
    if isinstance(value, float):
        return repr(value)
    # JSON's texts are those of TOML, but for the character that TOML forbids unescaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_value_of_key(value: Any) -> str:
    """Return a value; a list of tables has a line for each, as a person would write it."""
    is_list_of_tables = isinstance(value, list | tuple) and any(
        isinstance(item, Mapping) for item in value
    )
    if not is_list_of_tables:
        return format_toml_value(value)
    item_lines = [f"{INDENT}{format_toml_value(item)}," for item in value]
    return "\n".join(["[", *item_lines, "]"])


def _format_key(key: str) -> str:
    return key if BARE_KEY.fullmatch(key) else format_toml_value(key)
