"""CIFAR-10: 50,000 and 10,000 colour photographs of 32x32.

Reads `cifar-10-batches-py` in the data folder, where torchvision keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from training.datasets import Images, ImageSelection, _cache, _download

NAME = "cifar10"
IMAGE_SIZE = 32
TRAINING = (50_000, 3, 10)
FILES = {
    "cifar-10-batches-py/data_batch_1": "c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "40351d587109b95175f43aff81a1287e",
    "cifar-10-batches-py/batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
}
ARCHIVE = {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}
SOURCES = ("https://www.cs.toronto.edu/~kriz/",)
DOWNLOAD_MB = 171
ROOM_MB = 360
FOLDER = "cifar-10-batches-py"
BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
LABELS = "batches.meta"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load(wanted: ImageSelection) -> Images:
    """Return 50,000 or 10,000 images of 3x32x32. Downloads the files if they are missing. Raises:
    DataError."""
    pixels, labels = _cache.load_tensors(
        NAME,
        _cache.cached_split(wanted),
        partial(_find, wanted.data_dir / FOLDER, wanted.split),
        partial(_fetch, wanted.data_dir),
        partial(_decode, wanted),
    )
    mean = (125.3, 123.0, 113.9)
    std = (63.0, 62.1, 66.7)
    return Images(
        pixels,
        labels,
        len(CLASSES),
        tuple(m / 255 for m in mean),
        tuple(s / 255 for s in std),
        CLASSES,
    )


def _find(folder: Path, split: str) -> list[Path]:
    return [folder / name for name in (*BATCHES[split], LABELS)]


def _fetch(data_dir: Path) -> None:
    _download.require_torchvision(NAME)
    from torchvision.datasets.utils import extract_archive

    missing = sorted(
        {path for split in BATCHES for path in _find(data_dir / FOLDER, split) if not path.exists()}
    )
    with _download.download_folder(NAME, data_dir, [path.name for path in missing]) as inbox:
        ((name, md5),) = ARCHIVE.items()
        archive = data_dir / name
        if archive.exists():
            _download.verify_checksums(NAME, [(archive, md5)])
        else:
            urls = [source + name for source in SOURCES]
            archive = _download.download_file(NAME, urls, inbox, md5, data_dir)
        extract_archive(archive, inbox)
        (data_dir / FOLDER).mkdir(exist_ok=True)
        for path in missing:
            (inbox / FOLDER / path.name).rename(path)


def _decode(wanted: ImageSelection, files: Sequence[Path]) -> _cache.PixelsAndLabels:
    _download.require_torchvision(NAME)
    from torchvision.datasets import CIFAR10

    class Batch(CIFAR10):  # type: ignore[misc]
        """One file of the split, without a check of its checksum: that follows below."""

        test_list = ()
        meta = CIFAR10.meta | {"md5": None}

        def __init__(self, file: Path) -> None:
            self.train_list = ((file.name, None),)
            super().__init__(str(wanted.data_dir))

        def _load_meta(self) -> None:
            with _cache.name_damaged_file(wanted.data_dir / FOLDER / LABELS):
                super()._load_meta()

    if wanted.verify:
        _download.verify_checksums(NAME, [(file, FILES[f"{FOLDER}/{file.name}"]) for file in files])
    pixels = list[torch.Tensor]()
    labels = list[int]()
    for file in files:
        if file.name == LABELS:
            continue
        with _cache.name_damaged_file(file):
            batch = Batch(file)
        pixels.append(torch.from_numpy(batch.data).permute(0, 3, 1, 2))
        labels.extend(batch.targets)
    return torch.cat(pixels), torch.tensor(labels)
