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
    image_selection: ImageSelection,
    file_names: Sequence[str],
    read: Callable[[Path], Part],
    join: Callable[[list[Part]], PixelsAndLabels],
) -> PixelsAndLabels:
    """Return pixels and labels of a split of a data set, from the cache where they are there.

    `files` are the keys in `FILES` of the split's files; `read` reads one, `join` puts them
    together. Raises: DataError.
    """
    data_folder = image_selection.data_dir
    published: dict[str, str] = registry.read_constant("datasets", name, "FILES")

    def decode(sources: Sequence[Path]) -> PixelsAndLabels:
        if image_selection.verify:
            sums = {data_folder / file: md5 for file, md5 in published.items()}
            # There is no published sum of a file that the user has unpacked.
            verify_checksums(name, {path: sums[path] for path in sources if path in sums})
        file_parts = []
        for path in sources:
            try:
                file_parts.append(read(path))
            except UNREADABLE as error:
                text = f"cannot read {path} ({error}): replace or remove it"
                raise DataError(name, text) from error
        return join(file_parts)

    # Data that were not checked have files of their own in the cache.
    cache_split = (
        image_selection.split if image_selection.verify else f"{image_selection.split}-unverified"
    )
    find_sources = partial(_find_sources, data_folder, file_names)
    fetch_missing = partial(_fetch_missing, name, data_folder, published)
    return load_tensors(name, cache_split, find_sources, fetch_missing, decode)


def _find_sources(folder: Path, files: Sequence[str]) -> list[Path]:
    return [_find_file(folder / file) for file in files]


def _find_file(path: Path) -> Path:
    """Return the path of a published file, or of what it holds, if only that is there."""
    unpacked_path = path.with_suffix("")
    is_unpacked = path.suffix == ".gz" and is_there(unpacked_path) and not is_there(path)
    return unpacked_path if is_unpacked else path


def _fetch_missing(name: str, folder: Path, published: Mapping[str, str]) -> None:
    """Download the files that are missing. Raises: DataError."""
    missing_files = [file for file in published if not _find_file(folder / file).exists()]
    archive: dict[str, str] = registry.read_constant("datasets", name, "ARCHIVE", {})
    with _download_folder(name, folder, missing_files) as inbox_folder:
        for file, md5 in archive.items():
            with tarfile.open(_fetch_archive(name, folder, inbox_folder, file, md5)) as tar_file:
                # The filter refuses absolute paths, links that lead outside, and devices.
                tar_file.extractall(inbox_folder, filter="data")
        for file in missing_files:
            target_path = folder / file
            arrived_path = inbox_folder / file
            if not archive:
                arrived_path = download_file(name, inbox_folder, target_path, published[file])
            target_path.parent.mkdir(parents=True, exist_ok=True)
            arrived_path.rename(target_path)


def _fetch_archive(name: str, folder: Path, inbox_folder: Path, file: str, md5: str) -> Path:
    target_path = folder / file
    if not target_path.exists():
        return download_file(name, inbox_folder, target_path, md5)
    verify_checksums(name, {target_path: md5})
    return target_path


def verify_checksums(name: str, published: Mapping[Path, str]) -> None:
    """Compare the files with their published MD5 sums. Raises: DataError, which names the first
    that differs."""
    differing_files, _ = compare({os.path.abspath(path): md5 for path, md5 in published.items()})
    if differing_files:
        advice = "replace it, or accept it with --no-verify-data"
        raise DataError(
            name, f"{differing_files[0]} does not have the published checksum: {advice}"
        )


@contextmanager
def _download_folder(name: str, folder: Path, missing: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder to download into, on the disk of the `missing` files. Folders that
    stay empty are removed at the end. Raises: DataError, if `folder` cannot be written."""
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".incoming-") as inbox_folder:
            yield Path(inbox_folder)
    except OSError as error:
        problem = f"{', '.join(missing)} missing in {folder}, which cannot be written"
        advice = "put the files there, make room, or use --data-dir"
        raise DataError(name, f"{problem} ({error.strerror}): {advice}") from error
    finally:
        for path in new_folders:
            with suppress(OSError):  # it is not empty
                path.rmdir()


def download_file(name: str, inbox_folder: Path, target_path: Path, md5: str) -> Path:
    """Download the file that belongs at `target` from the first source that has it, and check its
    MD5 sum. Return its path in `inbox`. Raises: DataError."""
    arrived_path = inbox_folder / target_path.name
    failures: dict[str, None] = {}
    for source in registry.read_constant("datasets", name, "SOURCES"):
        url = f"{source}{target_path.name}"
        print(f"downloading {url} for {target_path.parent}", file=sys.stderr, flush=True)  # noqa: T201
        try:
            with urlopen(url, timeout=TIMEOUT) as http_answer, arrived_path.open("wb") as file:
                shutil.copyfileobj(http_answer, file)
        except OSError as error:
            failures[str(error)] = None
            continue
        if compare({os.path.abspath(arrived_path): md5}) == ((), ()):
            return arrived_path
        failures[f"{url} does not have the published checksum"] = None
    reasons = "; ".join(failures)
    problem = (
        f"no {target_path.name} in {target_path.parent}, and it cannot be downloaded ({reasons})"
    )
    raise DataError(name, f"{problem}: put {target_path.name} there, or use --data-dir")
