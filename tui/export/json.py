"""Writes one JSON file with settings, summary and all tables, each as columns.

The JSON is strict: a number that is not finite is null.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.steps import join_tables
from remote.record.summary import to_strict_json
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
    columns = {name: _as_lists(table) for name, table in tables.items() if count_rows(table)}
    content = summarise(run) | {"tables": to_strict_json(columns)}
    target.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")


def _as_lists(table: ExportTable) -> ExportTable:
    return {
        name: column.tolist() if isinstance(column, np.ndarray) else column
        for name, column in table.items()
    }
