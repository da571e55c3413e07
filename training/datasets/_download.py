"""Downloads the missing files of a data set into the data folder; existing files stay as they are.

Functions import torchvision themselves: the import takes seconds, and a start that finds its files
and cache does not need it.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from training.checksums import compare
from training.datasets import DataError

TIMEOUT = 20.0
"""Seconds to wait for an answer of a mirror."""


def require_torchvision(name: str) -> None:
    """Make sure that torchvision can be imported. Raises: DataError."""
    try:
        import torchvision.datasets  # noqa: F401
    except ImportError as error:
        raise DataError(
            name,
            f"torchvision is missing ({error}): install it with {sys.executable} -m pip install "
            "torchvision",
        ) from error


def verify_checksums(name: str, files: Sequence[tuple[Path, str]]) -> None:
    """Compare the files with their published MD5 sums. Raises: DataError, which names the first
    that differs; OSError, where one cannot be read."""
    differing, _ = compare({os.path.abspath(path): md5 for path, md5 in files})
    if differing:
        advice = "replace it, or accept it with --no-verify-data"
        raise DataError(name, f"{differing[0]} does not have the published checksum: {advice}")


@contextmanager
def download_folder(name: str, folder: Path, missing: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder to download into, on the disk of the `missing` files. Folders that
    stay empty are removed at the end.

    Raises: DataError, if `folder` cannot be written.
    """
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        with _inbox(name, folder, missing) as inbox:
            yield Path(inbox)
    except OSError as error:
        where = f"{folder} cannot be written ({error.strerror})"
        raise DataError(name, f"{where}: make room there, or use --data-dir") from error
    finally:
        for one in made:
            with suppress(OSError):  # it is not empty
                one.rmdir()


def _inbox(name: str, folder: Path, missing: Sequence[str]) -> TemporaryDirectory[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=folder, prefix=".incoming-")
    except OSError as error:
        where = (
            f"{', '.join(missing)} missing in {folder}, which cannot be written ({error.strerror})"
        )
        raise DataError(name, f"{where}: put the files there, or use --data-dir") from error


def download_file(name: str, urls: Sequence[str], into: Path, md5: str, home: Path) -> Path:
    """Download a file into `into` from the first mirror of `urls` that answers, and check its MD5
    sum. Return its path.

    `home` is the folder where the file belongs. Raises: DataError.
    """
    from torchvision.datasets.utils import download_url

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    failures: dict[str, None] = {}
    try:
        for url in urls:
            print(f"downloading {url} for {home}", file=sys.stderr, flush=True)  # noqa: T201
            try:
                with redirect_stdout(sys.stderr):
                    download_url(url, into, md5=md5)
            except (OSError, RuntimeError) as error:
                failures[str(error)] = None
                continue
            return into / url.rpartition("/")[2]
    finally:
        socket.setdefaulttimeout(before)
    file = urls[0].rpartition("/")[2]
    advice = f"put {file} there, or use --data-dir"
    raise DataError(
        name, f"no {file} in {home}, and it cannot be downloaded ({'; '.join(failures)}): {advice}"
    )
