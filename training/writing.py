"""Writes bytes: all of them, and a file whole or not at all, also through a power cut. Makes
folders for their owner only."""

from __future__ import annotations

import os
from collections.abc import Callable

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

PART = ".part"
"""The end of a file's name until it is whole."""


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes to an open descriptor. Raises: OSError."""
    unwritten_bytes = memoryview(data)
    while unwritten_bytes:
        unwritten_bytes = unwritten_bytes[os.write(descriptor, unwritten_bytes) :]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace a file, whole or not at all, for its owner only. No link is followed. Raises:
    OSError."""
    parent_folder, name = os.path.split(os.fspath(path))
    # A name of its own, as two processes may write the same file at once.
    part_path = os.path.join(parent_folder, f".{name}.{os.urandom(8).hex()}{PART}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(part_path, flags, 0o600)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(part_path, path)
    except BaseException:
        os.unlink(part_path)
        raise


def make_private_folders(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it that are missing, for their owner only, whatever the umask.
    Folders that are there stay as they are. Raises: OSError."""
    folder = os.path.abspath(path)
    if os.path.isdir(folder):
        return
    make_private_folders(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # another process was faster, unless it is a file
        if not os.path.isdir(folder):
            raise


def write_synced(path: Path, fill: Callable[[IO[bytes]], object], mode: int = 0o600) -> int:
    """Replace a file by what `fill` writes, so that it survives a power cut. The umask limits the
    permissions `mode`. Return its size in bytes.

    One process at a time may write it: what another one that was killed has left goes. Raises:
    OSError, and what `fill` raises.
    """
    part_path = path.with_name(path.name + PART)
    try:
        with open(part_path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            fill(file)
            # Before the rename: after a power cut the new name might stand for an empty file.
            file.flush()
            os.fsync(file.fileno())
            file_size = file.tell()
        part_path.replace(path)
    except BaseException:
        part_path.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return file_size


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def describe_write_error(error: OSError | RuntimeError) -> str:
    """Say in short why a file could not be written."""
    # torch.save hides the error of the disk behind a RuntimeError.
    cause = error if isinstance(error, OSError) else error.__context__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error)
