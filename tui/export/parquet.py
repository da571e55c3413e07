"""Writes a folder with one Parquet file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
from pyarrow import parquet

from remote.metrics.run import RunFigures
from tui.export.tables import make_tables, summarise


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    target.mkdir()
    for name, table in make_tables(run).items():
        parquet.write_table(pyarrow.table(table), target / f"{name}.parquet")
    text = json.dumps(summarise(run), indent=2)
    (target / "run.json").write_text(f"{text}\n", encoding="utf-8")
