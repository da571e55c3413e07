"""Decoded images as one tensor file per split of a data set, shared by all ranks of a host.

The cache is in $RANKBOARD_CACHE, or in ~/.cache/rankboard. The name of a file holds a digest of
the sizes and modification times of its sources and of the format, so a changed source is decoded
again. One process at a time fetches and decodes, under an flock; a file appears whole, by rename.
Reading the cache needs only torch; decoding may need more.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from training.checksums import cache_folder
from training.datasets import DataError
from training.file_locks import wait_for_lock
from training.writing import describe_write_error, write_synced

FORMAT = 1
"""Version of what a file holds: {"pixels": (N, C, H, W) uint8, "labels": (N,) int64}."""

MOST_NAMED = 8
"""The number of files that an error names."""
PixelsAndLabels = tuple[Tensor, Tensor]
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


def cache_path() -> Path:
    """Return the folder of the cache on this host."""
    return Path(cache_folder())


def load_tensors(
    name: str,
    split: str,
    find_sources: Callable[[], Sequence[Path]],
    fetch_missing: Callable[[], None],
    decode: Callable[[Sequence[Path]], PixelsAndLabels],
    key: str = "",
) -> PixelsAndLabels:
    """Return pixels and labels of a split, from the cache or else decoded into it.

    `find` names the source files, whether they exist or not; `fetch` downloads the missing ones;
    `decode` reads them; `key` is everything else that decides on the result, besides the files'
    names, sizes and times. Raises: DataError.
    """
    with _explain_read_failure(name):
        source_files = find_sources()
    cached_tensors = _read_cached(_cache_path(name, split, source_files, key))
    if cached_tensors:
        return cached_tensors
    # Without the lock until here: most starts find the cache complete.
    with _lock_cache(name):
        with _explain_read_failure(name):
            is_complete = all(map(is_there, source_files))
        if not is_complete:
            fetch_missing()
        source_files = find_sources()  # another process may have fetched them
        cache_file = _cache_path(name, split, source_files, key)
        cached_tensors = _read_cached(cache_file)
        if cached_tensors:
            return cached_tensors
        decoded_tensors = decode(source_files)
        _write_cached(name, cache_file, decoded_tensors)
        # From the file, whose pages all ranks of the host share.
        return _read_cached(cache_file) or decoded_tensors


def is_there(path: Path) -> bool:
    """Return True if a file exists. Raises: OSError, if this user may not look."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def list_some(sources: Sequence[object]) -> str:
    """Return the first of the sources, and how many more there are."""
    others_text = f" and {len(sources) - MOST_NAMED} more" if len(sources) > MOST_NAMED else ""
    return ", ".join(map(str, sources[:MOST_NAMED])) + others_text


def _cache_path(name: str, split: str, sources: Sequence[Path], key: str) -> Path | None:
    try:
        source_facts = [(s.name, s.stat().st_size, s.stat().st_mtime_ns) for s in sources]
    except OSError:
        return None
    key_digest = hashlib.sha256(repr((FORMAT, key, source_facts)).encode()).hexdigest()[:16]
    return cache_path() / f"{name}-{split}-{key_digest}.pt"


def _read_cached(path: Path | None) -> PixelsAndLabels | None:
    if path is None or not path.exists():
        return None
    try:
        content = torch.load(path, mmap=True, weights_only=True)
        return content["pixels"], content["labels"]
    except UNREADABLE:
        return None


def _write_cached(name: str, path: Path | None, decoded: PixelsAndLabels) -> None:
    if path is None:
        raise DataError(name, "its files were removed while they were read")
    content = {"pixels": decoded[0].contiguous(), "labels": decoded[1].contiguous()}
    with _explain_write_failure(name):
        # $RANKBOARD_CACHE may belong to several users: their umask decides who reads it.
        write_synced(path, partial(torch.save, content), mode=0o666)


@contextmanager
def _lock_cache(name: str) -> Iterator[None]:
    """Let one process at a time use the cache of a data set."""
    with _explain_write_failure(name):
        cache_path().mkdir(parents=True, exist_ok=True)
        lock_file = open(cache_path() / f"{name}.lock", "ab")  # noqa: SIM115
    with lock_file:  # what fails from here on is no failure to write the cache
        wait_for_lock(lock_file)
        yield


@contextmanager
def _explain_write_failure(name: str) -> Iterator[None]:
    """Turn a failure to write the cache into an error that says what to do."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = describe_write_error(error)
        advice = "make room there, or set RANKBOARD_CACHE to another folder"
        problem = f"the cache {cache_path()} cannot be written ({reason}): {advice}"
        raise DataError(name, problem) from error


@contextmanager
def _explain_read_failure(name: str) -> Iterator[None]:
    """Turn a failure to look for files into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise DataError(
            name, f"{error.filename}: {error.strerror}: let this user read it, or use --data-dir"
        ) from error
