"""Writes bytes: all of them, and a file whole or not at all."""

from __future__ import annotations

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open descriptor. Raises: OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file, whole or not at all, for its owner only. No link is followed. Raises:
    OSError."""
    folder, name = os.path.split(os.fspath(path))
    beside = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o600)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
