"""A host's disk: what `training.agent.journal` asks of the module `os`, in memory."""

from __future__ import annotations

import errno
import os
from itertools import count
from types import SimpleNamespace

from tests.simulation.here import here

RESERVE = 4096
"""Bytes that the reserve of a journal gives up on a simulated disk."""


class Disk:
    """The files of a host's run, by name. `room` are the bytes that are left."""

    def __init__(self) -> None:
        self.files: dict[str, bytearray] = {}
        self.room = float("inf")


class _Path:
    join = staticmethod(os.path.join)
    basename = staticmethod(os.path.basename)

    @staticmethod
    def exists(path: str) -> bool:
        return os.path.basename(path) in here.host.disk.files

    @staticmethod
    def getsize(path: str) -> int:
        return len(here.host.disk.files[os.path.basename(path)])


class DiskOs:
    """The module `os` for a journal. Descriptors are its own numbers."""

    path = _Path
    O_RDWR, O_APPEND, O_CLOEXEC = os.O_RDWR, os.O_APPEND, os.O_CLOEXEC
    O_WRONLY, O_CREAT, O_EXCL = os.O_WRONLY, os.O_CREAT, os.O_EXCL

    def __init__(self) -> None:
        self._open: dict[int, bytearray] = {}
        self._numbers = count(3)

    def clear(self) -> None:
        """Nothing is open any more."""
        self._open.clear()

    def listdir(self, _: str) -> list[str]:
        return list(here.host.disk.files)

    def open(self, path: str, flags: int = 0, _: int = 0) -> int:
        name, files = os.path.basename(path), here.host.disk.files
        if name not in files and not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        number = next(self._numbers)
        self._open[number] = files.setdefault(name, bytearray())
        return number

    def pread(self, number: int, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._open[number])[offset : offset + size])

    def write(self, number: int, data: memoryview) -> int:
        disk = here.host.disk
        size = min(len(data), int(disk.room)) if disk.room < len(data) else len(data)
        if not size:
            raise OSError(errno.ENOSPC, "No space left on device")
        disk.room -= size
        self._open[number] += data[:size]
        return size

    def ftruncate(self, number: int, size: int) -> None:
        data = self._open[number]
        here.host.disk.room += len(data) - size
        del data[size:]

    def unlink(self, path: str) -> None:
        disk = here.host.disk
        name = os.path.basename(path)
        if name not in disk.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        data = disk.files.pop(name)
        disk.room += RESERVE if os.path.basename(path) == "reserve" else len(data)

    def statvfs(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=min(here.host.disk.room, 1 << 40), f_frsize=1)

    def write_whole(self, path: str, data: bytes) -> None:
        """In place of `training.writing.write_whole`. Who has opened the file keeps the old one."""
        disk = here.host.disk
        name = os.path.basename(path)
        disk.room += len(disk.files[name]) - len(data)
        disk.files[name] = bytearray(data)

    def close(self, number: int) -> None:
        del self._open[number]
