"""Decoded images as one tensor file per split of a data set, shared by all ranks of a host.

The cache is in $RANKBOARD_CACHE, or in ~/.cache/rankboard. The name of a file holds a digest of
the sizes and modification times of its sources and of the format, so a changed source is decoded
again. One process at a time fetches and decodes, under an flock; a file appears whole, by rename.
Reading the cache needs only torch; decoding may need more.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from training.checksums import cache_folder
from training.datasets import DataError, ImageSelection
from training.file_locks import wait_for_lock
from training.writing import describe_write_error, write_synced

FORMAT = 1
"""Version of what a file holds: {"pixels": (N, C, H, W) uint8, "labels": (N,) int64}."""

MOST_NAMED = 8
"""The number of files that an error names."""
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk."""
PixelsAndLabels = tuple[torch.Tensor, torch.Tensor]
UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
    pickle.UnpicklingError,
    zlib.error,
)
"""What reading a damaged file raises: gzip, idx and pickle files as well as the cache's."""


class DamagedFile(ValueError):
    """One of the files of a data set cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(str(error))
        self.path = path
        self.error = error


@contextmanager
def name_damaged_file(path: Path) -> Iterator[None]:
    """Name the file that is read, where that fails. Raises: DamagedFile."""
    try:
        yield
    except DamagedFile:
        raise
    except UNREADABLE as error:
        raise DamagedFile(path, error) from error


def cache_path() -> Path:
    """Return the folder of the cache on this host."""
    return Path(cache_folder())


def cached_split(wanted: ImageSelection) -> str:
    """Return the split in the name of a file: data that were not checked against the published
    checksums have files of their own."""
    return wanted.split if wanted.verify else f"{wanted.split}-unverified"


def load_tensors(
    name: str,
    split: str,
    find: Callable[[], Sequence[Path]],
    fetch: Callable[[], None],
    decode: Callable[[Sequence[Path]], PixelsAndLabels],
    key: str = "",
) -> PixelsAndLabels:
    """Return pixels and labels of a split, from the cache or else decoded into it.

    `find` names the source files, whether they exist or not; `fetch` downloads the missing ones;
    `decode` reads them; `key` is everything else that decides on the result, besides the files'
    names, sizes and times. Raises: DataError.
    """
    with _explain_read_failure(name):
        sources = find()
    found = read_cached(name, split, sources, key)
    if found:
        return found
    with _lock_cache(name):
        with _explain_read_failure(name):
            missing = not all(map(is_there, find()))
        if missing:
            fetch()
        sources = find()
        path = _cache_path(name, split, sources, key)
        found = _read(path)
        if found is None:
            decoded = _decode_sources(name, sources, decode)
            _write(name, path, decoded)
            found = _read(path) or decoded
        return found


def read_cached(name: str, split: str, sources: Sequence[Path], key: str) -> PixelsAndLabels | None:
    """Return pixels and labels from the cache, or None if they are not there."""
    return _read(_cache_path(name, split, sources, key))


def is_there(path: Path) -> bool:
    """Return True if a file exists. Raises: OSError, if this user may not look."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def list_some(sources: Sequence[object]) -> str:
    """Return the first of the sources, and how many more there are."""
    more = f" and {len(sources) - MOST_NAMED} more" if len(sources) > MOST_NAMED else ""
    return ", ".join(map(str, sources[:MOST_NAMED])) + more


def _decode_sources(
    name: str, sources: Sequence[Path], decode: Callable[[Sequence[Path]], PixelsAndLabels]
) -> PixelsAndLabels:
    """Decode the sources. Raises: DataError."""
    try:
        return decode(sources)
    except UNREADABLE as error:
        if isinstance(error, DamagedFile):
            text = f"cannot read {error.path} ({error}): replace or remove it"
            cause = error.error
        else:
            text = f"cannot read {list_some(sources)} ({error}): replace or remove what is damaged"
            cause = error
        if isinstance(cause, OSError) and cause.errno in DISK_FULL_ERRORS:
            text = (
                f"no room to unpack it in {tempfile.gettempdir()}: make room there, or set TMPDIR "
                "to another folder"
            )
        raise DataError(name, text) from error


def _cache_path(name: str, split: str, sources: Sequence[Path], key: str) -> Path | None:
    try:
        made_of = [(s.name, s.stat().st_size, s.stat().st_mtime_ns) for s in sources]
    except OSError:
        return None
    digest = hashlib.sha256(repr((FORMAT, key, made_of)).encode()).hexdigest()[:16]
    return cache_path() / f"{name}-{split}-{digest}.pt"


def _read(path: Path | None) -> PixelsAndLabels | None:
    if path is None or not path.exists():
        return None
    try:
        held = torch.load(path, mmap=True, weights_only=True)
        return held["pixels"], held["labels"]
    except UNREADABLE:
        return None


def _write(name: str, path: Path | None, found: PixelsAndLabels) -> None:
    if path is None:
        raise DataError(name, "its files were removed while they were read")
    kept = {"pixels": found[0].contiguous(), "labels": found[1].contiguous()}
    with _explain_write_failure(name):
        # $RANKBOARD_CACHE may belong to several users: their umask decides who reads it.
        write_synced(path, partial(torch.save, kept), mode=0o666)


@contextmanager
def _lock_cache(name: str) -> Iterator[None]:
    """Let one process at a time use the cache of a data set."""
    with _explain_write_failure(name):
        cache_path().mkdir(parents=True, exist_ok=True)
        lock = open(cache_path() / f"{name}.lock", "ab")  # noqa: SIM115
    with lock:  # what fails from here on is no failure to write the cache
        wait_for_lock(lock)
        yield


@contextmanager
def _explain_write_failure(name: str) -> Iterator[None]:
    """Turn a failure to write the cache into an error that says what to do."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        where = f"the cache {cache_path()} cannot be written ({describe_write_error(error)})"
        raise DataError(
            name, f"{where}: make room there, or set RANKBOARD_CACHE to another folder"
        ) from error


@contextmanager
def _explain_read_failure(name: str) -> Iterator[None]:
    """Turn a failure to look for files into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise DataError(
            name, f"{error.filename}: {error.strerror}: let this user read it, or use --data-dir"
        ) from error
