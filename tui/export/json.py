"""Writes one JSON file with settings, summary and all tables, each as columns.

The JSON is strict: msgspec writes null for a number that is not finite.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.steps import join_tables
from tui.export.tables import (
    STEP_TABLES,
    ExportTable,
    count_rows,
    make_small_tables,
    read_all_steps,
    summarise,
)


def write(run: RunFigures, target: Path) -> None:
    """Write the file. Raises: OSError; RunFolderError."""
    steps = join_tables(read_all_steps(run))
    tables = {name: make_table(steps) for name, make_table in STEP_TABLES.items()}
    tables |= make_small_tables(run)
    columns = {name: _encode(table) for name, table in tables.items() if count_rows(table)}
    content = summarise(run) | {"tables": columns}
    target.write_bytes(msgspec.json.encode(content) + b"\n")


def _encode(table: ExportTable) -> dict[str, msgspec.Raw]:
    """Return each column as JSON, which takes less memory than its values as objects."""
    encoded_columns = {}
    for name, column in table.items():
        values = column.tolist() if isinstance(column, np.ndarray) else column
        encoded_columns[name] = msgspec.Raw(msgspec.json.encode(values))
    return encoded_columns
