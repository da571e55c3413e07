"""Reads what a launcher records of a run while it does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from remote.limits import LIMITS
from remote.record import files
from remote.record.layout import EVENTS
from remote.record.lock import launcher
from remote.record.read import RunFolderError, Sieve
from training.wire.events import Record
from training.wire.line_cutter import LineCutter, LineTooLong

LOOK = 0.2
"""Seconds between two looks at what another launcher has recorded."""
BLOCK = 1 << 16
"""Bytes that are read at once."""


def follow(folder: Path, hosts: int, remark: Callable[[str], object] = len) -> Iterator[Record]:
    """What is recorded of a run with so many hosts and what its launcher goes on to record,
    expanded, as long as it does. `remark` is told what was left out.

    Raises: OtherFormat; RunFolderError.
    """
    tail, over = Tail(folder, hosts), False
    while not over:
        over = not launcher(folder)  # looked up before the read: what it wrote last is read yet
        for batch in tail.read():
            yield from batch
        if not over:
            time.sleep(LOOK)
    if not tail.is_there:
        raise RunFolderError(f"{folder} holds no run: {EVENTS} is missing")
    tail.close(remark)


class Tail:
    """The records of a run that have come since the last look at them. A line that is just being
    written is left for the next look."""

    def __init__(self, folder: Path, hosts: int) -> None:
        """`hosts`: how many the run has."""
        self.path = folder / EVENTS
        self._hosts = hosts
        self._file: BinaryIO | None = None
        self._begin()

    def _begin(self) -> None:
        self._sieve = Sieve(self.path.parent.name, self._hosts)
        self._cutter = LineCutter(LIMITS.line)

    def read(self) -> Iterator[list[Record]]:
        """What has come, expanded, in batches; nothing where there is no file yet.

        Raises: OtherFormat; RunFolderError.
        """
        try:
            self._file = self._file or self._opened()
            while self._file and (block := self._file.read(BLOCK)):
                yield list(self._sieve.records(self._cutter.feed(block)))
        except OSError as error:
            raise RunFolderError(f"{self.path}: {error.strerror}") from error
        except LineTooLong as error:
            raise RunFolderError(f"{self.path}: {error}") from error

    def _opened(self) -> BinaryIO | None:
        with suppress(FileNotFoundError):
            return files.opened(self.path)
        return None

    @property
    def is_there(self) -> bool:
        """Whether there has been a file."""
        return self._file is not None

    def is_replaced(self) -> bool:
        """Whether the file is another one now, or shorter than what was read of it. The next `read`
        then begins anew."""
        if self._file is None:
            return False
        try:
            found, known = os.lstat(self.path), os.fstat(self._file.fileno())
        except OSError:
            return False  # it is gone; what was read of it stays
        if os.path.samestat(found, known) and found.st_size >= self._file.tell():
            return False
        self._file.close()
        self._file = None
        self._begin()
        return True

    def close(self, remark: Callable[[str], object] = len) -> None:
        """Close the file. `remark` is told what was left out."""
        if self._file is not None:
            self._file.close()
            self._sieve.tell(self.path, remark)
