"""Show log files of any program as a run: a rank for each file.

The record of this run is made in a folder of its own, and then read as any other.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from remote.cluster.hosts import SLOTS, Host
from remote.cluster.rules import folder_rules
from remote.events import HostPhaseChanged
from remote.format import count
from remote.formats.files import is_of_numbers
from remote.plan.plan import LOG_FILES, Plan, PlanError, Script
from remote.record.events_file import LOOK
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from training.wire.enums import Reach
from training.wire.events import FIRST, SESSION, Event, Record, encode
from training.wire.host_events import FILE, Launched, OutputText, Spawned

HERE = "files"
"""The host that the ranks are on."""
BLOCK = 1 << 16
"""Bytes of a file that make a record."""
_NUMBER = re.compile(r"(\d+)")


class LogFiles:
    """Log files as a run: `plan` has a rank for each, in the order of their names, numbers by their
    value.

    Lines have no times of their own: what the files have at first gets the time of the newest
    change of a file, and what comes later the time at which it is read.
    """

    def __init__(self, log_paths: Sequence[Path], runs_dir: Path) -> None:
        """Begin the record in `runs_dir`. Raises: OSError; PlanError; HostsError, of rules in
        rankboard.toml."""
        if len(log_paths) > SLOTS:
            raise PlanError(f"{len(log_paths)} files: {SLOTS} at most are shown at once")
        self.paths = sorted(log_paths, key=_natural_order)
        self._files = [_open_file(path) for path in self.paths]
        self.plan = _plan_for(self.paths)
        self._recorder = Recorder(runs_dir, self.plan)
        self._seq = FIRST
        self._time = max(path.stat().st_mtime for path in self.paths)
        ready_event = HostPhaseChanged(0, Reach.READY)
        self._recorder.write(Record(SESSION, 0, FIRST, self._time, ready_event))
        ranks = range(len(log_paths))
        self._record(Launched(tuple(ranks)))
        for rank in ranks:
            self._record(Spawned(rank, 0))

    @property
    def folder(self) -> Path:
        """The folder of the record."""
        return self._recorder.folder

    def read(self) -> None:
        """Record what has come in the files since the last time. Raises: OSError."""
        has_more = True
        while has_more:
            has_more = False
            for rank, file in enumerate(self._files):  # by turns, as ranks go on together
                has_more |= self._record_text(rank, file.stream, file.read())
            write_problem = self._recorder.flush()
            if write_problem:
                raise OSError(write_problem)

    def close(self) -> None:
        """Record the ends of the files that have no newline. Nothing more comes."""
        for rank, file in enumerate(self._files):
            self._record_text(rank, file.stream, file.close())
        self._recorder.flush()
        self._recorder.release()

    def follow(self, left_event: threading.Event) -> None:
        """Record what comes until `left_event` is set."""
        try:
            while not left_event.wait(LOOK):
                self._time = time.time()
                self.read()
        except OSError:  # a disk that is full: what was read of the files stays
            pass
        finally:
            self.close()

    def _record_text(self, rank: int, stream: str, text: str) -> bool:
        """Record a text of a rank. Return False if it is empty."""
        if text:
            self._record(OutputText(rank, stream, text))
        return bool(text)

    def _record(self, event: Event) -> None:
        record = Record(0, 0, self._seq, self._time, event)
        self._recorder.raw(encode(record).encode())
        self._seq += 1


def _plan_for(log_paths: Sequence[Path]) -> Plan:
    path_names = tuple(str(path) for path in log_paths)
    script = Script(path_names, watch=False, rules=folder_rules(Path()))
    host = Host(HERE, "", slots=len(log_paths), transport="local")
    return Plan(LOG_FILES, (host,), script)


class OpenedFiles(WatchedRun):
    """The record of log files, which grows if they are followed."""

    def __init__(self, files: LogFiles, *, follows: bool) -> None:
        super().__init__(files.folder, files.plan)
        self._files = files
        self._follows = follows

    @property
    def news(self) -> str:
        """What the user should know of the record, in one sentence."""
        if self.reading is not None or self.problem:
            return super().news
        file_count = len(self._files.paths)
        counted_files = count(file_count, "log file")
        if self._follows:
            return f"{counted_files}, and what is written to {'it' if file_count == 1 else 'them'}"
        return f"{counted_files}, as of now: --follow shows also what is written from now on"


def file_texts(path: Path) -> Iterator[str]:
    """Yield the text of a file of numbers, as the agent of a rank would send it. Raises:
    OSError."""
    numbers_file = _NumbersFile(path)
    while text := numbers_file.read():
        yield text
    text = numbers_file.close()
    if text:
        yield text


def _open_file(path: Path) -> _TextFile | _NumbersFile:
    """Raises: OSError."""
    return _NumbersFile(path) if is_of_numbers(path.name) else _TextFile(path)


class _NumbersFile:
    """The text of a table, of JSON or of an event file, read as hosts read those of `--follow`."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self.stream = f"{FILE}{path}"
        self._path = os.path.realpath(path)
        self._open()

    def _open(self) -> None:
        # Imported here, as it brings all that an agent runs on a host.
        from training.agent.local_api import GrowingFile, Redaction

        self._file = GrowingFile(self._path, Redaction())

    def read(self) -> str:
        """Return the next text; "" if there is none as yet. Raises: OSError."""
        if self._file.is_gone and os.path.isfile(self._path):
            self._file.end()
            self._open()
        while True:
            text = "".join(self._file.read(BLOCK))
            if text or not self._file.has_more:
                return text

    def close(self) -> str:
        """Return what is behind the last newline."""
        return self._file.end()


class _TextFile:
    """The text of a file, whole lines or states of progress bars at a time. A file that was
    replaced or cut is read from its beginning on."""

    stream = "stdout"

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""

    def read(self) -> str:
        """Return the next text; "" if there is none as yet. Raises: OSError."""
        new_bytes = self._file.read(BLOCK)
        if not new_bytes and self._is_replaced():
            self._file.close()
            self._file = self._path.open("rb")
            new_bytes = self._file.read(BLOCK)
            if self._rest:  # no more comes of that line
                self._rest += b"\n"
        new_bytes = self._rest + new_bytes
        lines_end = max(new_bytes.rfind(b"\n"), new_bytes.rfind(b"\r")) + 1
        # A line without an end must not gather in memory.
        if not lines_end and len(new_bytes) >= BLOCK:
            lines_end = len(new_bytes)
        self._rest = new_bytes[lines_end:]
        return _decode(new_bytes[:lines_end])

    def close(self) -> str:
        """Return what is behind the last newline."""
        self._file.close()
        return _decode(self._rest)

    def _is_replaced(self) -> bool:
        try:
            path_status = self._path.stat()
        except OSError:
            return False  # it may come again
        opened_status = os.fstat(self._file.fileno())
        return (
            not os.path.samestat(path_status, opened_status)
            or path_status.st_size < self._file.tell()
        )


def _decode(data: bytes) -> str:
    return data.decode(errors="replace").removesuffix("\n")


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """Return a key by which rank-2.log comes before rank-10.log."""
    path_parts = _NUMBER.split(str(path))
    return [
        (int(path_part), "") if path_part.isdecimal() else (0, path_part)
        for path_part in path_parts
    ]
