"""Writes a folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from remote.metrics.run import RunFigures
from tui.export.tables import ExportTable, write_folder


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    write_folder(run, target, ".csv", _write_table)


def _write_table(table: ExportTable, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow(map(_format_cell, row))


def _format_cell(value: Any) -> Any:
    """Return a float so that it is read back as it is; a whole number has no decimals."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else value
