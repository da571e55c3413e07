"""Reads and writes the files of a run directory, which somebody else may have filled.

No link is followed, and nothing but regular files is opened. A file is read up to a limit.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from remote.format import size
from remote.limits import LIMITS
from training.writing import make_private_folders, write_all, write_whole

_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe is not waited for, but refused
BLOCK = 1 << 20
Failed = Callable[[OSError], object]
"""Is called with the error of a file that cannot be read, and counts as empty."""


def ignore(error: OSError) -> None:
    """Say nothing of a file that cannot be read."""


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file. Return its descriptor. A new file is for its owner only.
    Raises: OSError."""
    try:
        descriptor = os.open(path, flags | _SAFELY, 0o600)
    except OSError as error:
        raise _explained(error, path) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def _explained(error: OSError, path: Path) -> OSError:
    """Return the error, with a text that says so if the file is a link."""
    if error.errno == errno.ELOOP:
        return OSError(errno.ELOOP, "it is a link, which is not followed", str(path))
    return error


def opened(path: Path) -> BinaryIO:
    """Open a file for reading. Raises: OSError."""
    return os.fdopen(open_regular(path, os.O_RDONLY), "rb")


def read(path: Path, limit: int) -> bytes:
    """Return the whole file. Raises: OSError, also if it is larger than `limit` bytes."""
    with opened(path) as file:
        # One byte more than allowed tells a file of the limit's size from a larger one, even
        # while it grows.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {size(limit)}", str(path))
    return data


def lines(path: Path, longest_line: int = LIMITS.line) -> Iterator[bytes]:
    """Yield the lines of a file, each with its newline; b"" in place of one with more than
    `longest_line` bytes. Raises: OSError."""
    with opened(path) as file:
        while line := file.readline(longest_line + 1):
            if len(line) <= longest_line or line.endswith(b"\n"):
                yield line
                continue
            while (line_rest := file.readline(BLOCK)) and not line_rest.endswith(b"\n"):
                pass
            yield b""


def is_torn(path: Path) -> bool:
    """Return True if a file ends in the middle of a line; False also if it cannot be read."""
    with suppress(OSError), opened(path) as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    return False


def append(path: Path, data: bytes) -> None:
    """Append to a file; it is made if needed. Raises: OSError, perhaps after a part was written."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def is_folder(path: Path) -> bool:
    """Return True if this is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def make_runs_dir(path: Path) -> None:
    """Make the folder of all runs, for its owner only, if there is none. Raises: OSError."""
    make_private_folders(path.absolute().parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        # for git, and for uploads of the folder around it
        write_whole(path / ".gitignore", b"*\n")


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    """Make a folder for its owner only. An existing one must be the user's own. Raises: OSError."""
    is_new = True
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not exist_ok:
            raise
        is_new = False
    folder_status = path.lstat()
    if not stat.S_ISDIR(folder_status.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which is not followed", str(path))
    # Not checked of a new one: some shared disks give it to one user, such as root.
    if not is_new and folder_status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", str(path))
