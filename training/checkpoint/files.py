"""Writing a file whole or not at all, so that it survives a power cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

PART = ".part"
"""The end of a file's name until it is whole."""


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> int:
    """Writes a file under another name, syncs and renames it: its size in bytes. Raises: OSError,
    and what `fill` raises."""
    beside = path.with_name(path.name + PART)
    with beside.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    beside.replace(path)
    sync(path.parent)
    return size


def sync(folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
