"""Writes a folder with one Parquet file per table, and `run.json` with settings and summary."""

from __future__ import annotations

from pathlib import Path

import pyarrow
from pyarrow.parquet import ParquetWriter

from tui.export.folder import FolderWriter


class ParquetFile:
    """A Parquet file that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: ParquetWriter | None = None

    def write(self, rows: pyarrow.Table) -> None:
        """Write further rows. Raises: OSError."""
        # The first rows say what the columns are.
        self._writer = self._writer or ParquetWriter(self._path, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> None:
        """Close the file."""
        if self._writer:
            self._writer.close()


write = FolderWriter(".parquet", pyarrow.table, ParquetFile).write
