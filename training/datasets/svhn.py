"""SVHN: 73,257 and 26,032 colour photographs of house numbers' digits, 32x32
(http://ufldl.stanford.edu/housenumbers).

Reads `svhn/train_32x32.mat` and `svhn/test_32x32.mat` in the data folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from training.datasets import DataError, Images, ImageSelection, _cache, _download

NAME = "svhn"
IMAGE_SIZE = 32
TRAINING = (73_257, 3, 10)
FILES = {
    "svhn/train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "svhn/test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
SOURCES = ("http://ufldl.stanford.edu/housenumbers/",)
DOWNLOAD_MB = 247


def load(wanted: ImageSelection) -> Images:
    """Return 73,257 or 26,032 images of 3x32x32. Downloads the file if it is missing. Raises:
    DataError."""
    file = wanted.data_dir / "svhn" / f"{wanted.split}_32x32.mat"
    pixels, labels = _cache.load_tensors(
        NAME,
        _cache.cached_split(wanted),
        lambda: [file],
        partial(_fetch, file),
        partial(_decode, wanted),
    )
    return Images(pixels, labels, 10, mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1970))


def _fetch(file: Path) -> None:
    _download.require_torchvision(NAME)
    urls = [source + file.name for source in SOURCES]
    with _download.download_folder(NAME, file.parent, [file.name]) as inbox:
        _download.download_file(NAME, urls, inbox, _published(file), file.parent).rename(file)


def _published(file: Path) -> str:
    return FILES[f"svhn/{file.name}"]


def _decode(wanted: ImageSelection, files: Sequence[Path]) -> _cache.PixelsAndLabels:
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError as error:
        raise DataError(
            NAME,
            f"scipy is missing ({error}): install it with {sys.executable} -m pip install scipy",
        ) from error
    if wanted.verify:
        _download.verify_checksums(NAME, [(file, _published(file)) for file in files])
    try:
        held = loadmat(files[0])
    except MatReadError as error:
        raise ValueError(error) from error
    labels = torch.from_numpy(held["y"].astype("int64")).flatten()
    # In the files the digit 0 has the label 10.
    return torch.from_numpy(held["X"]).permute(3, 2, 0, 1), labels % 10
