"""Writes the tables of a run, and folders with a file for each and `run.json`.

The steps of a long run come in parts. All cores read, convert and write them, each a part at a
time, so that only a few parts are in memory.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from remote.metrics.run import RunFigures
from remote.metrics.step_index import StepPart, read_part
from remote.metrics.steps import StepTable
from tui.export.tables import STEP_TABLES, ExportTable, count_rows, make_small_tables, summarise

MOST_PROCESSES = 8
Rows = TypeVar("Rows")
Result = TypeVar("Result")


class PartTask(NamedTuple):
    """A part of the steps that is to be written."""

    number: int
    """Its place among the parts."""
    part: StepPart


class TableFiles(Protocol[Rows]):
    """Files of tables that are being written."""

    is_shared: bool
    """Several processes may append to the files, one after the other."""

    @staticmethod
    def convert(table: ExportTable) -> Rows:
        """Return rows as they are written, in any process."""

    def append(self, name: str, rows: Rows) -> None:
        """Write further rows of the table of this name. Raises: OSError."""

    def close(self) -> None:
        """Close the files. Raises: OSError."""


def write_folder(run: RunFigures, target: Path, files: TableFiles[Any]) -> None:
    """Write a folder with the files of the tables. Raises: OSError; RunFolderError."""
    target.mkdir()
    write_tables(run, files)
    text = json.dumps(summarise(run), indent=2)
    (target / "run.json").write_text(f"{text}\n", encoding="utf-8")


def write_tables(run: RunFigures, files: TableFiles[Any]) -> None:
    """Write the files of the tables. Raises: OSError; RunFolderError."""
    with closing(files):
        for name, table in make_small_tables(run).items():
            files.append(name, files.convert(table))
        if run.all_steps is None:
            _append_all(files, _convert_steps(files.convert, run.steps))
        else:
            _write_parts(files, run.all_steps())


def _write_parts(files: TableFiles[Rows], parts: Iterable[StepPart]) -> None:
    """Write the rows of parts, one after the other. Raises: OSError; RunFolderError."""
    tasks = (PartTask(number, part) for number, part in enumerate(parts))
    if files.is_shared:
        deque(_map_tasks(partial(_append_part, files), tasks), maxlen=0)
    else:
        for rows_by_table in _map_tasks(partial(_convert_part, files.convert), tasks):
            _append_all(files, rows_by_table)


def _append_part(files: TableFiles[Rows], task: PartTask) -> None:
    """Write the rows of a part, in a process of the pool. Raises: OSError; RunFolderError."""
    rows_by_table: dict[str, Rows] = {}
    try:
        rows_by_table = _convert_part(files.convert, task)
    finally:
        # Whatever happens here, the process with the next part waits for its turn.
        with _turns.wait_for(task.number):
            _append_all(files, rows_by_table)


def _convert_part(convert: Callable[[ExportTable], Rows], task: PartTask) -> dict[str, Rows]:
    """Return the rows of a part, in a process of the pool. Raises: RunFolderError."""
    return _convert_steps(convert, read_part(task.part))


def _convert_steps(convert: Callable[[ExportTable], Rows], steps: StepTable) -> dict[str, Rows]:
    """Return the rows of the tables of steps, by the name of the table; none without rows."""
    tables = {name: make_table(steps) for name, make_table in STEP_TABLES.items()}
    return {name: convert(table) for name, table in tables.items() if count_rows(table)}


def _append_all(files: TableFiles[Rows], rows_by_table: dict[str, Rows]) -> None:
    for name, rows in rows_by_table.items():
        files.append(name, rows)


# Processes ----------------------------------------------------------------------------------------


class Turns:
    """Lets processes do something for each task, in the order of the tasks."""

    def __init__(self) -> None:
        self._changed = multiprocessing.Condition()
        self._next_number = multiprocessing.RawValue("q", 0)

    @contextmanager
    def wait_for(self, number: int) -> Iterator[None]:
        """Wait for the turn of the task of this number, which ends with the context. Each number
        from 0 on must have its turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._next_number.value == number)
        try:
            yield
        finally:
            with self._changed:
                self._next_number.value = number + 1
                self._changed.notify_all()


_turns = Turns()
"""Those of the pool that this process belongs to."""


def _begin_process(turns: Turns) -> None:
    global _turns
    _turns = turns
    # Ctrl+C in a terminal goes to all processes; only the first one decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _map_tasks(
    function: Callable[[PartTask], Result], tasks: Iterable[PartTask]
) -> Iterator[Result]:
    """Yield what a function returns for each task, in their order, from several processes."""
    num_processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    pending: deque[Future[Result]] = deque()
    pool = ProcessPoolExecutor(num_processes, initializer=_begin_process, initargs=(Turns(),))
    with pool:
        for task in tasks:
            pending.append(pool.submit(function, task))
            # One more than there are processes, so that none waits for this one.
            if len(pending) > num_processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
