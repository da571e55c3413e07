"""Reads what a launcher records of a run while it does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from remote.events import expand
from remote.limits import LIMITS
from remote.record import files
from remote.record.layout import EVENTS
from remote.record.lock import launcher
from remote.record.read import RunFolderError, Sieve
from remote.run.output.script_readings import Expand
from training.wire.events import Record

LOOK = 0.2
"""Seconds between two looks at what another launcher has recorded."""


def follow(
    folder: Path, hosts: int, remark: Callable[[str], object] = len, expand: Expand = expand
) -> Iterator[Record]:
    """What is recorded of a run with so many hosts and what its launcher goes on to record,
    expanded (see `remote.run.output.script_readings`), as long as it
    does. `remark` is told what was left out.

    Raises: OtherFormat; RunFolderError.
    """
    over = False
    with closing(Tail(folder, hosts, expand)) as tail:
        while not over:
            over = not launcher(folder)  # looked up before the read: what it wrote last is read yet
            for records in tail.read():
                yield from records
            if not over:
                time.sleep(LOOK)
        if not tail.is_there:
            raise RunFolderError(f"{folder} holds no run: {EVENTS} is missing")
        tail.close(remark)


class Tail:
    """The records of a run, line by line, also those that come while it is read. A line that is
    just being written is left for the next look.

    `offset` is how many bytes of lines have been read.
    """

    def __init__(self, folder: Path, hosts: int, expand: Expand = expand) -> None:
        """`hosts`: how many the run has."""
        self.path = folder / EVENTS
        self.offset = 0
        self._file: BinaryIO | None = None
        self._sieve = Sieve(folder.name, hosts, expand)

    def read(self) -> Iterator[list[Record]]:
        """What has come, line by line, see `read_line`."""
        return iter(self.read_line, [])

    def read_line(self) -> list[Record]:
        """The records of the next line that has some, expanded; none where no more have come, or
        there is no file yet.

        Raises: OtherFormat; RunFolderError.
        """
        try:
            self._file = self._file or self._opened()
            while self._file and (line := self._file.readline(LIMITS.line + 1)):
                if not line.endswith(b"\n"):
                    self._check_length(line)
                    self._file.seek(self.offset)
                    break
                self.offset += len(line)
                records = list(self._sieve.records((line,)))
                if records:
                    return records
        except OSError as error:
            raise RunFolderError(f"{self.path}: {error.strerror}") from error
        return []

    def _check_length(self, line: bytes) -> None:
        if len(line) > LIMITS.line:
            raise RunFolderError(f"{self.path}: it has a line longer than {LIMITS.line:,} bytes")

    def _opened(self) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            file = files.opened(self.path)
            file.seek(self.offset)
            return file
        return None

    @property
    def expand(self) -> Expand:
        """What takes the records apart, in the state of those before."""
        return self._sieve.expand

    def seek(self, offset: int, expand: Expand) -> None:
        """Go on behind so many bytes of lines."""
        self.offset = offset
        self._sieve.expand = expand
        if self._file:
            self._file.seek(offset)

    @property
    def is_there(self) -> bool:
        """Whether there has been a file."""
        return self._file is not None

    @property
    def size(self) -> int:
        """Bytes that the file has now; 0 where it is not there."""
        with suppress(OSError):
            return self.path.lstat().st_size
        return 0

    def is_replaced(self) -> bool:
        """Whether the file is another one now, or shorter than what was read of it. The next line
        is then its first."""
        if self._file is None:
            return False
        try:
            found = os.lstat(self.path)
            known = os.fstat(self._file.fileno())
        except OSError:
            return False  # it is gone; what was read of it stays
        if os.path.samestat(found, known) and found.st_size >= self.offset:
            return False
        self._file.close()
        self._file = None
        self.offset = 0
        return True

    def close(self, remark: Callable[[str], object] = len) -> None:
        """Close the file. `remark` is told what was left out."""
        if self._file is not None:
            self._file.close()
            self._sieve.tell(self.path, remark)
