"""Build the code that hosts get: one archive of the package `training`, named by the digest of its
files."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import training
from remote.transport.bootstrap.first import DIGEST_SIZE

PACKAGE = Path(training.__file__).parent
"""The installed package that travels to the hosts."""
_MAKING = threading.Lock()


@dataclass(frozen=True)
class Archive:
    """The package as one zip file."""

    digest: str
    """The digest of its files, by which it is named."""
    data: bytes
    count: int
    """The number of its files."""


def build_archive(package: Path = PACKAGE) -> Archive:
    """Return the archive of a package folder. Equal files give equal bytes."""
    with _MAKING:  # dozens of hosts need it at once
        return _archive(package)


@cache
def _archive(package: Path) -> Archive:
    files = {}
    for path in sorted(package.rglob("*")):
        inner_path = path.relative_to(package)
        if path.is_file() and _travels(inner_path):
            files[f"{package.name}/{inner_path.as_posix()}"] = path.read_bytes()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        for file_name, file_bytes in files.items():
            # A new entry has the time 1980-01-01; one made from a file would change the bytes
            # with its time.
            zip_entry = zipfile.ZipInfo(file_name)
            zip_entry.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(zip_entry, file_bytes)
    return Archive(_digest(files), stream.getvalue(), len(files))


def _digest(files: Mapping[str, bytes]) -> str:
    """Return the digest of files by their names, as `hashed` of `bootstrap.rest` makes it."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for file_name in sorted(files):
        digest.update(f"{file_name}\0{len(files[file_name])}\0".encode())
        digest.update(files[file_name])
    return digest.hexdigest()


def _travels(path: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in path.parts)
    return path.suffix != ".pyc" and not is_hidden and "__pycache__" not in path.parts
