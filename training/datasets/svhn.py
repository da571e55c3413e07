"""SVHN: 73,257 and 26,032 colour photographs of house numbers' digits, 32x32
(http://ufldl.stanford.edu/housenumbers).

Reads `svhn/train_32x32.mat` and `svhn/test_32x32.mat` in the data folder.
"""

from __future__ import annotations

from pathlib import Path

import torch

from training.datasets import DataError, Images, ImageSelection
from training.datasets._cache import PixelsAndLabels
from training.datasets._published import load_published

IMAGE_SIZE = 32
TRAINING = (73_257, 3, 10)
FILES = {
    "svhn/train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "svhn/test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
SOURCES = ("http://ufldl.stanford.edu/housenumbers/",)
DOWNLOAD_MB = 247


def load(image_selection: ImageSelection) -> Images:
    """Return 73,257 or 26,032 images of 3x32x32. Downloads the files if they are missing. Raises:
    DataError."""
    file_names = [f"svhn/{image_selection.split}_32x32.mat"]
    pixels, labels = load_published(
        "svhn", image_selection, file_names, _read_mat, lambda parts: parts[0]
    )
    return Images(pixels, labels, 10, mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1970))


def _read_mat(file: Path) -> PixelsAndLabels:
    try:
        from scipy.io import loadmat
        from scipy.io.matlab import MatReadError
    except ImportError as error:
        raise DataError.missing_package("svhn", "scipy", error) from error
    try:
        content = loadmat(file)
    except MatReadError as error:
        raise ValueError(error) from error
    labels = torch.from_numpy(content["y"].astype("int64")).flatten()
    # MATLAB has the images last: (H, W, C, N).
    # In the files the digit 0 has the label 10.
    return torch.from_numpy(content["X"]).permute(3, 2, 0, 1), labels % 10
