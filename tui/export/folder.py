"""Writes a folder with a file per table, and `run.json` with settings and summary.

The steps of a long run come in parts. All cores read and convert them, each a part at a time, so
that only a few parts are in memory.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from remote.metrics.run import RunFigures
from remote.metrics.step_index import StepPart, read_part
from remote.metrics.steps import StepTable
from tui.export.tables import STEP_TABLES, ExportTable, count_rows, make_small_tables, summarise

MOST_PROCESSES = 8
Rows = TypeVar("Rows")
WrittenRows = TypeVar("WrittenRows", contravariant=True)


class TableFile(Protocol[WrittenRows]):
    """A file of a table that is being written."""

    def write(self, rows: WrittenRows) -> None:
        """Write further rows. Raises: OSError."""

    def close(self) -> None:
        """Close the file."""


class FolderWriter(Generic[Rows]):
    """Writes runs as folders with a file per table."""

    def __init__(
        self,
        suffix: str,
        convert: Callable[[ExportTable], Rows],
        open_file: Callable[[Path], TableFile[Rows]],
    ) -> None:
        """`convert` returns rows as they are written, and is called in any process; `open_file`
        opens a new file for them."""
        self._suffix = suffix
        self._convert = convert
        self._open_file = open_file

    def write(self, run: RunFigures, target: Path) -> None:
        """Write the folder. Raises: OSError; RunFolderError."""
        target.mkdir()
        with ExitStack() as stack:
            files: dict[str, TableFile[Rows]] = {}
            for name, rows in self._list_rows(run):
                if name not in files:
                    new_file = self._open_file(target / f"{name}{self._suffix}")
                    files[name] = stack.enter_context(closing(new_file))
                files[name].write(rows)
        text = json.dumps(summarise(run), indent=2)
        (target / "run.json").write_text(f"{text}\n", encoding="utf-8")

    def _list_rows(self, run: RunFigures) -> Iterator[tuple[str, Rows]]:
        """Yield the rows of all tables, those of one table in order, with its name."""
        for name, table in make_small_tables(run).items():
            yield name, self._convert(table)
        if run.all_steps is None:
            yield from _convert_steps(self._convert, run.steps).items()
            return
        for rows_by_table in _map_parts(partial(_convert_part, self._convert), run.all_steps()):
            yield from rows_by_table.items()


def _convert_part(convert: Callable[[ExportTable], Rows], part: StepPart) -> dict[str, Rows]:
    return _convert_steps(convert, read_part(part))


def _convert_steps(convert: Callable[[ExportTable], Rows], steps: StepTable) -> dict[str, Rows]:
    """Return the rows of the tables of steps, by the name of the table; none without rows."""
    tables = {name: make_table(steps) for name, make_table in STEP_TABLES.items()}
    return {name: convert(table) for name, table in tables.items() if count_rows(table)}


def _map_parts(
    function: Callable[[StepPart], dict[str, Rows]], parts: Iterable[StepPart]
) -> Iterator[dict[str, Rows]]:
    """Yield what a function returns for each part, in their order, from several processes."""
    num_processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    pending: deque[Future[dict[str, Rows]]] = deque()
    with ProcessPoolExecutor(num_processes) as pool:
        for part in parts:
            pending.append(pool.submit(function, part))
            # One more than there are processes, so that none waits while a result is written.
            if len(pending) > num_processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
