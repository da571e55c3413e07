"""Writes one JSON file with settings, summary and all tables, each as columns.

The JSON is strict: msgspec writes null for a number that is not finite.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec
import numpy as np

from remote.metrics.run import RunFigures
from tui.export.folder import write_tables
from tui.export.tables import ExportTable, summarise

COPIED = 1 << 20
"""Bytes that are copied at once."""


class JsonColumns:
    """Files with the values of each column, without brackets, of which one JSON file is made."""

    is_shared = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def convert(table: ExportTable) -> dict[str, bytes]:
        """Return the values of each column."""
        encoded_columns = {}
        for name, column in table.items():
            values = column.tolist() if isinstance(column, np.ndarray) else column
            encoded_columns[name] = msgspec.json.encode(values)[1:-1]
        return encoded_columns

    def append(self, name: str, rows: dict[str, bytes]) -> None:
        """Write further values of each column of a table. Raises: OSError."""
        table_folder = self._folder / name
        table_folder.mkdir(exist_ok=True)
        for number, (column_name, values) in enumerate(rows.items()):
            # The number keeps the columns in order.
            with (table_folder / f"{number:02}.{column_name}").open("ab") as file:
                if file.tell():
                    file.write(b",")
                file.write(values)

    def close(self) -> None:
        """Leave the files as they are, as none is open."""


def write(run: RunFigures, target: Path) -> None:
    """Write the file. Raises: OSError; RunFolderError."""
    # Beside the target, as the columns of a long run need as much room.
    with TemporaryDirectory(dir=target.parent) as folder, target.open("xb") as output:
        write_tables(run, JsonColumns(Path(folder)))
        output.write(msgspec.json.encode(summarise(run)).removesuffix(b"}"))
        output.write(b',"tables":{')
        for number, table_folder in enumerate(sorted(Path(folder).iterdir())):
            output.write(_begin_member(number, table_folder.name) + b"{")
            _join_columns(table_folder, output)
            output.write(b"}")
        output.write(b"}}\n")


def _join_columns(table_folder: Path, output: BinaryIO) -> None:
    """Write the columns of a table as members of an object, and remove their files."""
    for number, path in enumerate(sorted(table_folder.iterdir())):
        _, _, name = path.name.partition(".")
        output.write(_begin_member(number, name) + b"[")
        with path.open("rb") as file:
            copyfileobj(file, output, COPIED)
        output.write(b"]")
        path.unlink()  # so that there are never two copies of all


def _begin_member(number: int, name: str) -> bytes:
    comma = b"," if number else b""
    return comma + b'"%s":' % name.encode()
