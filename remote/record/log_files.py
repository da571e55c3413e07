"""Log files of any run, ours or not, as the record of a run: a rank for each file.

The record is made in a folder of its own, and then read as any other.
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
from remote.events import Reaching
from remote.format import count
from remote.formats.files import is_of_numbers
from remote.plan.plan import LOG_FILES, Plan, PlanError, Script
from remote.record.events_file import LOOK
from remote.record.watch import WatchedRun
from remote.record.write import Recorder
from training.wire.enums import Reach
from training.wire.events import (
    FILE,
    FIRST,
    SESSION,
    Event,
    Launched,
    OutputText,
    Record,
    Spawned,
    encode,
)

HERE = "files"
"""The host that the ranks are on."""
BLOCK = 1 << 16
"""Bytes of a file that make a record."""
_NUMBER = re.compile(r"(\d+)")


class LogFiles:
    """Log files as a run: `plan` has a rank for each, in the order of their names, numbers by their
    value. `read` records what has come of them. It is told the time of the newest change of a file,
    as lines tell none; what comes later has its own."""

    def __init__(self, paths: Sequence[Path], runs_dir: Path) -> None:
        """`runs_dir`: where the record is made. Raises: OSError; PlanError;
        HostsError, of rules in rankboard.toml."""
        if len(paths) > SLOTS:
            raise PlanError(f"{len(paths)} files: {SLOTS} at most are shown at once")
        self.paths = sorted(paths, key=_in_order)
        self._files = [_opened(path) for path in self.paths]
        words = tuple(map(str, self.paths))
        work = Script(words, watch=False, rules=folder_rules(Path()))
        self.plan = Plan(LOG_FILES, (Host(HERE, "", slots=len(paths), transport="local"),), work)
        self._recorder = Recorder(runs_dir, self.plan)
        self._seq = FIRST
        self._time = max(path.stat().st_mtime for path in self.paths)
        ranks = tuple(range(len(paths)))
        self._recorder.write(Record(SESSION, 0, FIRST, self._time, Reaching(0, Reach.READY)))
        self._say(Launched(ranks), *(Spawned(rank, 0) for rank in ranks))

    @property
    def folder(self) -> Path:
        """That of the record."""
        return self._recorder.folder

    def read(self) -> None:
        """Record what has come of the files since the last time. Raises: OSError."""
        is_more = True
        while is_more:
            is_more = False
            for rank, file in enumerate(self._files):  # by turns, as ranks go on together
                text = file.read()
                if text:
                    is_more = True
                    self._say(OutputText(rank, file.stream, text))
            problem = self._recorder.flush()
            if problem:
                raise OSError(problem)

    def close(self) -> None:
        """Record what stands at the ends of the files without a newline. Nothing more comes."""
        for rank, file in enumerate(self._files):
            text = file.rest()
            if text:
                self._say(OutputText(rank, file.stream, text))
        self._recorder.flush()
        self._recorder.release()

    def follow(self, left: threading.Event) -> None:
        """Record what comes until somebody has `left`."""
        try:
            while not left.wait(LOOK):
                self._time = time.time()
                self.read()
        except OSError:  # a disk that is full: what was read of the files stays
            pass
        finally:
            self.close()

    def _say(self, *events: Event) -> None:
        for event in events:
            self._recorder.raw(encode(Record(0, 0, self._seq, self._time, event)).encode())
            self._seq += 1


class OpenedFiles(WatchedRun):
    """The record of log files, as it grows where they are followed."""

    def __init__(self, files: LogFiles, *, follows: bool) -> None:
        super().__init__(files.folder, files.plan)
        self._files = files
        self._follows = follows

    @property
    def news(self) -> str:
        """What is to be known of the record, in one sentence."""
        if self.reading is not None or self.problem:
            return super().news
        what = count(len(self._files.paths), "log file")
        if self._follows:
            return f"{what}, and what is written to {'it' if what.startswith('1 ') else 'them'}"
        return f"{what}, as of now: --follow shows also what is written from now on"


def _opened(path: Path) -> _Lines | _Numbers:
    return _Numbers(path) if is_of_numbers(path.name) else _Lines(path)


def file_texts(path: Path) -> Iterator[str]:
    """The text of a file of numbers, as the agent of a rank would send it. Raises: OSError."""
    file = _Numbers(path)
    while text := file.read():
        yield text
    text = file.rest()
    if text:
        yield text


class _Numbers:
    """The text of a table, of JSON or of an event file, read as hosts read those of `--follow`.
    `stream` is that of its text."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self._path = os.path.realpath(path)
        self.stream = f"{FILE}{path}"
        self._open()

    def _open(self) -> None:
        from training.agent.local_api import GrowingFile, Redaction  # with all the errands

        self._file = GrowingFile(self._path, Redaction())

    def read(self) -> str:
        """See `_Lines.read`."""
        if self._file.is_gone and os.path.isfile(self._path):
            self._file.end()
            self._open()
        while True:
            text = "".join(self._file.read(BLOCK))
            if text or not self._file.has_more:
                return text

    def rest(self) -> str:
        """See `_Lines.rest`."""
        return self._file.end()


class _Lines:
    """The text of a file, whole lines or states of progress bars at a time. A file that was
    replaced or cut is read from its beginning on."""

    stream = "stdout"

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._rest = b""

    def read(self) -> str:
        """The next text; "" where there is none as yet. Raises: OSError."""
        data = self._file.read(BLOCK)
        if not data and self._is_replaced():
            self._file.close()
            self._file = self._path.open("rb")
            data = self._file.read(BLOCK)
            self._rest += b"\n" if self._rest else b""  # no more comes of that line
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end and len(data) >= BLOCK:
            end = len(data)
        self._rest = data[end:]
        return _text(data[:end])

    def rest(self) -> str:
        """What stands behind the last line, at the end. Closes the file."""
        self._file.close()
        return _text(self._rest)

    def _is_replaced(self) -> bool:
        try:
            found = self._path.stat()
        except OSError:
            return False  # it may come again
        known = os.fstat(self._file.fileno())
        return not os.path.samestat(found, known) or found.st_size < self._file.tell()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").removesuffix("\n")


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Of rank-2.log and rank-10.log the first one first."""
    parts = _NUMBER.split(str(path))
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]
