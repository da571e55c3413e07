"""Data sets that are published as files: finding the files in the data folder, downloading those
that are missing, and checking them against the published MD5 sums.

The module of such a data set declares `FILES`, `SOURCES` and, where one archive has all files,
`ARCHIVE`: see `training.registry`. Existing files stay as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from urllib.request import urlopen

from training import registry
from training.checksums import compare
from training.datasets import DataError, ImageSelection
from training.datasets._cache import UNREADABLE, PixelsAndLabels, is_there, load_tensors

TIMEOUT = 20.0
"""Seconds to wait for an answer of a mirror."""
Part = TypeVar("Part")
"""What one file holds."""


def load_published(
    name: str,
    wanted: ImageSelection,
    files: Sequence[str],
    read: Callable[[Path], Part],
    join: Callable[[list[Part]], PixelsAndLabels],
) -> PixelsAndLabels:
    """Return pixels and labels of a split of a data set, from the cache where they are there.

    `files` are the keys in `FILES` of the split's files; `read` reads one, `join` puts them
    together. Raises: DataError.
    """
    folder = wanted.data_dir
    published: dict[str, str] = registry.read_constant("datasets", name, "FILES")

    def decode(sources: Sequence[Path]) -> PixelsAndLabels:
        if wanted.verify:
            sums = {folder / file: md5 for file, md5 in published.items()}
            # There is no published sum of a file that the user has unpacked.
            verify_checksums(name, {path: sums[path] for path in sources if path in sums})
        parts = []
        for path in sources:
            try:
                parts.append(read(path))
            except UNREADABLE as error:
                text = f"cannot read {path} ({error}): replace or remove it"
                raise DataError(name, text) from error
        return join(parts)

    # Data that were not checked have files of their own in the cache.
    split = wanted.split if wanted.verify else f"{wanted.split}-unverified"
    find = partial(_find, folder, files)
    fetch = partial(_fetch, name, folder, published)
    return load_tensors(name, split, find, fetch, decode)


def _find(folder: Path, files: Sequence[str]) -> list[Path]:
    return [_find_file(folder / file) for file in files]


def _find_file(path: Path) -> Path:
    """Return the path of a published file, or of what it holds, if only that is there."""
    plain = path.with_suffix("")
    is_unpacked = path.suffix == ".gz" and is_there(plain) and not is_there(path)
    return plain if is_unpacked else path


def _fetch(name: str, folder: Path, published: Mapping[str, str]) -> None:
    """Download the files that are missing. Raises: DataError."""
    missing = [file for file in published if not _find_file(folder / file).exists()]
    archive: dict[str, str] = registry.read_constant("datasets", name, "ARCHIVE", {})
    with _download_folder(name, folder, missing) as inbox:
        for file, md5 in archive.items():
            with tarfile.open(_fetch_archive(name, folder, inbox, file, md5)) as tar:
                tar.extractall(inbox, filter="data")
        for file in missing:
            target = folder / file
            arrived = inbox / file
            if not archive:
                arrived = download_file(name, inbox, target, published[file])
            target.parent.mkdir(parents=True, exist_ok=True)
            arrived.rename(target)


def _fetch_archive(name: str, folder: Path, inbox: Path, file: str, md5: str) -> Path:
    target = folder / file
    if not target.exists():
        return download_file(name, inbox, target, md5)
    verify_checksums(name, {target: md5})
    return target


def verify_checksums(name: str, published: Mapping[Path, str]) -> None:
    """Compare the files with their published MD5 sums. Raises: DataError, which names the first
    that differs."""
    differing, _ = compare({os.path.abspath(path): md5 for path, md5 in published.items()})
    if differing:
        advice = "replace it, or accept it with --no-verify-data"
        raise DataError(name, f"{differing[0]} does not have the published checksum: {advice}")


@contextmanager
def _download_folder(name: str, folder: Path, missing: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder to download into, on the disk of the `missing` files. Folders that
    stay empty are removed at the end. Raises: DataError, if `folder` cannot be written."""
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".incoming-") as inbox:
            yield Path(inbox)
    except OSError as error:
        where = f"{', '.join(missing)} missing in {folder}, which cannot be written"
        advice = "put the files there, make room, or use --data-dir"
        raise DataError(name, f"{where} ({error.strerror}): {advice}") from error
    finally:
        for path in new_folders:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def download_file(name: str, inbox: Path, target: Path, md5: str) -> Path:
    """Download the file that belongs at `target` from the first source that has it, and check its
    MD5 sum. Return its path in `inbox`. Raises: DataError."""
    arrived = inbox / target.name
    failures: dict[str, None] = {}
    for source in registry.read_constant("datasets", name, "SOURCES"):
        url = f"{source}{target.name}"
        print(f"downloading {url} for {target.parent}", file=sys.stderr, flush=True)  # noqa: T201
        try:
            with urlopen(url, timeout=TIMEOUT) as answer, arrived.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except OSError as error:
            failures[str(error)] = None
            continue
        if compare({os.path.abspath(arrived): md5}) == ((), ()):
            return arrived
        failures[f"{url} does not have the published checksum"] = None
    reasons = "; ".join(failures)
    where = f"no {target.name} in {target.parent}, and it cannot be downloaded ({reasons})"
    raise DataError(name, f"{where}: put {target.name} there, or use --data-dir")
