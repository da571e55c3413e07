"""Writes a folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from remote.metrics.run import RunFigures
from tui.export.tables import make_tables, summarise


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    target.mkdir()
    for name, table in make_tables(run).items():
        with (target / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            for row in zip(*table.values(), strict=True):
                writer.writerow([_format_cell(value) for value in row])
    text = json.dumps(summarise(run), indent=2)
    (target / "run.json").write_text(f"{text}\n", encoding="utf-8")


def _format_cell(value: Any) -> Any:
    """Return a float so that it is read back as it is; a whole number has no decimals."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else value
