"""CIFAR-10: 50,000 and 10,000 colour photographs of 32x32.

Reads `cifar-10-batches-py` in the data folder, where torchvision keeps it.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch

from training.datasets import Images, ImageSelection
from training.datasets._cache import PixelsAndLabels
from training.datasets._published import load_published

IMAGE_SIZE = 32
TRAINING = (50_000, 3, 10)
FILES = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
}
ARCHIVE = {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}
SOURCES = ("https://www.cs.toronto.edu/~kriz/",)
DOWNLOAD_MB = 171
ROOM_MB = 360
BATCHES = {"train": "data_batch", "test": "test_batch"}
MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load(image_selection: ImageSelection) -> Images:
    """Return 50,000 or 10,000 images of 3x32x32. Downloads the files if they are missing. Raises:
    DataError."""
    file_names = [file for file in FILES if BATCHES[image_selection.split] in file]
    pixels, labels = load_published(
        "cifar10", image_selection, file_names, _read_batch, _join_batches
    )
    return Images(pixels, labels, len(CLASSES), MEAN, STD, CLASSES)


def _read_batch(file: Path) -> PixelsAndLabels:
    # The published files are pickles of Python 2. Their checksums have been compared.
    batch = pickle.loads(file.read_bytes(), encoding="latin1")
    return torch.from_numpy(batch["data"]).view(-1, 3, 32, 32), torch.tensor(batch["labels"])


def _join_batches(batches: list[PixelsAndLabels]) -> PixelsAndLabels:
    pixels, labels = zip(*batches, strict=True)
    return torch.cat(pixels), torch.cat(labels)
