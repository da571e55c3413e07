"""Writes a folder with one Parquet file per table, and `run.json` with settings and summary."""

from __future__ import annotations

from pathlib import Path

import pyarrow
from pyarrow.parquet import ParquetWriter

from remote.metrics.run import RunFigures
from tui.export.folder import write_folder
from tui.export.tables import ExportTable


class ParquetFiles:
    """Parquet files that are being written."""

    is_shared = False  # what stands at the end of a file is known to the process that wrote it all

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writers: dict[str, ParquetWriter] = {}

    @staticmethod
    def convert(table: ExportTable) -> pyarrow.Table:
        """Return the rows of a table."""
        return pyarrow.table(table)

    def append(self, name: str, rows: pyarrow.Table) -> None:
        """Write further rows. Raises: OSError."""
        if name not in self._writers:
            # The first rows say what the columns are.
            self._writers[name] = ParquetWriter(self._folder / f"{name}.parquet", rows.schema)
        self._writers[name].write_table(rows)

    def close(self) -> None:
        """Close the files. Raises: OSError."""
        for writer in self._writers.values():
            writer.close()


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError; RunFolderError."""
    write_folder(run, target, ParquetFiles(target))
