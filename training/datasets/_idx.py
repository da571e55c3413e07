"""Images in the file format of MNIST: 60,000 and 10,000 of 28x28, padded to 32x32."""

from __future__ import annotations

import gzip
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

from training.datasets import ImageSelection
from training.datasets._cache import PixelsAndLabels
from training.datasets._published import load_published

STEMS = {"train": "train", "test": "t10k"}
IMAGES_HEADER = 16
LABELS_HEADER = 8
"""Bytes before the values: a magic number, then the size of each dimension."""


def load_idx(name: str, folder: str, image_selection: ImageSelection) -> PixelsAndLabels:
    """Return pixels (N, 1, 32, 32) and labels. Download the files if they are missing. `folder` is
    that of the files, where torchvision keeps them, too. Raises: DataError."""
    file_stem = f"{folder}/{STEMS[image_selection.split]}"
    file_names = (f"{file_stem}-images-idx3-ubyte.gz", f"{file_stem}-labels-idx1-ubyte.gz")
    return load_published(name, image_selection, file_names, _read_idx, _join_parts)


def _read_idx(file: Path) -> Tensor:
    file_bytes = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    values = torch.frombuffer(bytearray(file_bytes), dtype=torch.uint8)
    if "labels" in file.name:
        return values[LABELS_HEADER:].long()
    return pad(values[IMAGES_HEADER:].view(-1, 1, 28, 28), (2, 2, 2, 2))


def _join_parts(parts: list[Tensor]) -> PixelsAndLabels:
    pixels, labels = parts
    return pixels, labels
