"""Lock files between processes. A lock ends with the last descriptor of its open file, and so with
the process that holds it."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from typing import IO


def try_lock(file: int | IO[bytes], *, shared: bool = False) -> bool:
    """Lock an open file if that is possible now. Return False if another process holds a lock that
    excludes this one. Raises: OSError, also on a disk without locks."""
    lock_kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, lock_kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(file: int | IO[bytes] | IO[str]) -> None:
    """Lock an open file, once no other process holds a lock on it. Raises: OSError."""
    fcntl.flock(file, fcntl.LOCK_EX)


def unlock(file: int) -> None:
    """Give up the lock on an open file. Raises: OSError."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def hold_lock(path: str | PathLike[str]) -> Iterator[None]:
    """Hold the lock on a file, which is made if needed; wait until no other process has it.
    Raises: OSError."""
    with open(path, "ab") as file:
        wait_for_lock(file)
        yield
