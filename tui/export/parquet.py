"""Writes a folder with one Parquet file per table, and `run.json` with settings and summary."""

from __future__ import annotations

from pathlib import Path

import pyarrow
from pyarrow import parquet

from remote.metrics.run import RunFigures
from tui.export.tables import write_folder


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    write_folder(
        run,
        target,
        ".parquet",
        lambda table, path: parquet.write_table(pyarrow.table(table), path),
    )
