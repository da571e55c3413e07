"""How to repeat a study elsewhere: its file with all settings as it was run, and its command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tomllib

from remote.study.folder import StudyCall
from remote.study.tables import TABLES, override, with_underscores
from remote.toml_writer import format_toml_table, join_toml_tables

FLAG_NAMES = {"nodes": "num-hosts"}
"""Options for hosts that are recorded by another name than that of their flag."""
QUICK_TITLE = " (quick variant)"
SETTINGS = ("job", "base")
"""Tables whose keys may be written with dashes."""
FOLDER_OF_DATA = "data_dir"
"""The setting that holds for one machine only."""


def to_flags(options: Mapping[str, Any]) -> list[str]:
    """Return options as a person types them."""
    words = []
    for key, value in options.items():
        flag_name = FLAG_NAMES.get(key, key.replace("_", "-"))
        if isinstance(value, bool):
            words.append(f"--{flag_name}" if value else f"--no-{flag_name}")
        elif isinstance(value, list | tuple):
            for item in value:
                words += [f"--{flag_name}", str(item)]
        else:
            words += [f"--{flag_name}", str(value)]
    return words


def study_words(name: str, call: StudyCall) -> list[str]:
    """Return the words of the command that makes a study anew, in the folder of the first call."""
    quick_words = ["--quick"] if call.quick else []
    options = [*to_flags(call.places), *to_flags(call.given)]
    return ["rankboard", "study", name, "--new", *quick_words, *options, *call.other_options]


def write_study_as_run(call: StudyCall) -> str:
    """Return the file of a study with the settings of the command line, and of a quick variant
    with what that changes, so that no option is needed to make the same runs.

    The folder of the data is left out: another machine has its own.
    """
    tables = tomllib.loads(call.text)
    quick_tables = tables.pop("quick", {})
    if call.quick:
        tables |= _merge(tables, quick_tables)
        if "title" in tables:
            tables["title"] += QUICK_TITLE
    given = {key: value for key, value in call.given.items() if key != FOLDER_OF_DATA}
    if given:
        tables["job"] = override(with_underscores(tables.get("job", {})), given)
    top_keys = {key: value for key, value in tables.items() if key not in (*TABLES, "cell")}
    head_lines = ["# The study with all settings as it was run."]
    if call.quick:
        head_lines = ["# The quick variant of a study, with all settings as it was run."]
    table_lines = [
        format_toml_table(f"[{name}]", tables[name]) for name in TABLES if name in tables
    ]
    # The cells come behind the axes to which they add.
    cell_lines = [format_toml_table("[[cell]]", table) for table in tables.get("cell", [])]
    return join_toml_tables(
        [[*head_lines, *format_toml_table("", top_keys)], *table_lines, *cell_lines]
    )


def _merge(tables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables that [quick] changes: key by key, all else as a whole."""
    merged_tables = {}
    for key, new_value in changes.items():
        old_value = tables.get(key)
        if isinstance(old_value, dict) and isinstance(new_value, dict):
            if key in SETTINGS:
                old_value, new_value = with_underscores(old_value), with_underscores(new_value)
            merged_tables[key] = override(old_value, new_value)
        else:
            merged_tables[key] = new_value
    return merged_tables
