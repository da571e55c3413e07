"""Decoded images as one tensor file per split of a data set, shared by all ranks of a host.

Lies in $RANKBOARD_CACHE, else ~/.cache/rankboard. A file's name holds what it was made of (sizes
and modification times of the sources, and the format), so a changed source is decoded anew. One
process at a time fetches and decodes, under an flock; a file appears whole, by rename. Needs
nothing but torch to read: decoding may need more, and a second start does not.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from training.datasets import DataError, Wanted
from training.disk import reason

FORMAT = 1
"""Version of what a file holds: {"pixels": (N, C, H, W) uint8, "labels": (N,) int64}."""

MANY = 8
"""Files that an error names."""
FULL = (errno.ENOSPC, errno.EDQUOT)
"""What a disk without room says."""
Tensors = tuple[torch.Tensor, torch.Tensor]
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
"""What reading a broken file raises: gzip, idx and pickle files as well as our own."""


def folder() -> Path:
    """The folder of the cache on this host."""
    return Path(os.environ.get("RANKBOARD_CACHE") or "~/.cache/rankboard").expanduser()


def version(wanted: Wanted) -> str:
    """The split, as the name of a file says it: what was not held against published checksums lies
    beside what was."""
    return wanted.split if wanted.verify else f"{wanted.split}-unverified"


def tensors(
    name: str,
    split: str,
    find: Callable[[], Sequence[Path]],
    fetch: Callable[[], None],
    decode: Callable[[Sequence[Path]], Tensors],
    key: str = "",
) -> Tensors:
    """Pixels and labels of a split, from the cache or else decoded into it.

    `find` names the source files, whether they are there or not; `fetch` brings those that are
    missing; `decode` reads them; `key` says all that decides on the result besides the files' own
    names, sizes and times. Raises: DataError.
    """
    with _asked(name):
        sources = find()
    if found := held(name, split, sources, key):
        return found
    with _alone(name):
        with _asked(name):
            missing = not all(map(there, find()))
        if missing:
            fetch()
        sources = find()
        path = _path(name, split, sources, key)
        if (found := _read(path)) is None:
            try:
                found = decode(sources)
            except UNREADABLE as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    where = f"no room to unpack it in {tempfile.gettempdir()}"
                    raise DataError(
                        name, f"{where}: make room there, or set TMPDIR to another folder"
                    ) from error
                raise DataError(
                    name,
                    f"cannot read {named(sources)} ({error}): replace what is damaged, or remove "
                    "it",
                ) from error
            _write(name, path, found)
            found = _read(path) or found
        return found


def held(name: str, split: str, sources: Sequence[Path], key: str) -> Tensors | None:
    """What is in the cache already, None where it is not."""
    return _read(_path(name, split, sources, key))


def there(path: Path) -> bool:
    """Whether there is a file. Raises: OSError, where this user may not ask."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def named(sources: Sequence[object]) -> str:
    """Some of them, and how many more there are."""
    more = f" and {len(sources) - MANY} more" if len(sources) > MANY else ""
    return ", ".join(map(str, sources[:MANY])) + more


def _path(name: str, split: str, sources: Sequence[Path], key: str) -> Path | None:
    try:
        made_of = [(s.name, s.stat().st_size, s.stat().st_mtime_ns) for s in sources]
    except OSError:
        return None
    digest = hashlib.sha256(repr((FORMAT, key, made_of)).encode()).hexdigest()[:16]
    return folder() / f"{name}-{split}-{digest}.pt"


def _read(path: Path | None) -> Tensors | None:
    if path is None or not path.exists():
        return None
    try:
        held = torch.load(path, mmap=True, weights_only=True)
        return held["pixels"], held["labels"]
    except UNREADABLE:
        return None


def _write(name: str, path: Path | None, found: Tensors) -> None:
    if path is None:
        raise DataError(name, "its files went away while they were read")
    new = path.with_suffix(".new")
    try:
        with _writable(name), open(new, "wb") as file:
            torch.save({"pixels": found[0].contiguous(), "labels": found[1].contiguous()}, file)
            file.flush()
            os.fsync(file.fileno())
            new.replace(path)
    except DataError:
        with suppress(OSError):
            new.unlink()
        raise


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process of this cache at a time, per data set."""
    with _writable(name):
        folder().mkdir(parents=True, exist_ok=True)
        lock = open(folder() / f"{name}.lock", "a")  # noqa: SIM115
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _writable(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:
        where = f"the cache {folder()} cannot be written ({reason(error)})"
        raise DataError(
            name, f"{where}: make room there, or set RANKBOARD_CACHE to another folder"
        ) from error


@contextmanager
def _asked(name: str) -> Iterator[None]:
    """Around asking whether files are there, which this user may not be allowed to."""
    try:
        yield
    except OSError as error:
        raise DataError(
            name, f"{error.filename}: {error.strerror}: let this user read it, or use --data-dir"
        ) from error
