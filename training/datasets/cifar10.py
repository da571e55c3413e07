"""CIFAR-10: 50,000 and 10,000 colour photographs of 32x32.

Reads `cifar-10-batches-py` in the data folder, where torchvision keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from training.datasets import Images, Wanted, _cache, _download

NAME = "cifar10"
IMAGE_SIZE = 32
TRAINING = (50_000, 3, 10)
FILES = (
    "cifar-10-batches-py/data_batch_1",
    "cifar-10-batches-py/data_batch_2",
    "cifar-10-batches-py/data_batch_3",
    "cifar-10-batches-py/data_batch_4",
    "cifar-10-batches-py/data_batch_5",
    "cifar-10-batches-py/test_batch",
    "cifar-10-batches-py/batches.meta",
)
ARCHIVE = "cifar-10-python.tar.gz"
DOWNLOAD_MB = 171
ROOM_MB = 360
FOLDER = "cifar-10-batches-py"
BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
LABELS = "batches.meta"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load(wanted: Wanted) -> Images:
    """50,000 or 10,000 images of 3x32x32. Downloads the files where they are missing. Raises:
    DataError."""
    pixels, labels = _cache.tensors(
        NAME,
        _cache.version(wanted),
        partial(_find, wanted.data_dir / FOLDER, wanted.split),
        partial(_fetch, wanted.data_dir),
        partial(_decode, wanted),
    )
    mean, std = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)
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
    _download.torchvision(NAME)
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import extract_archive

    missing = sorted(
        {path for split in BATCHES for path in _find(data_dir / FOLDER, split) if not path.exists()}
    )
    with _download.incoming(NAME, data_dir, [path.name for path in missing]) as inbox:
        archive = data_dir / CIFAR10.filename
        if archive.exists():
            _download.verify(NAME, [(archive, CIFAR10.tgz_md5)])
        else:
            archive = _download.download(NAME, [CIFAR10.url], inbox, CIFAR10.tgz_md5, data_dir)
        extract_archive(archive, inbox)
        (data_dir / FOLDER).mkdir(exist_ok=True)
        for path in missing:
            (inbox / FOLDER / path.name).rename(path)


def _decode(wanted: Wanted, files: Sequence[Path]) -> _cache.Tensors:
    _download.torchvision(NAME)
    from torchvision.datasets import CIFAR10

    class Batches(CIFAR10):  # type: ignore[misc]
        """The files of the split, without a check of their checksums: that follows below."""

        train_list = tuple((name, None) for name in BATCHES[wanted.split])
        test_list = ()
        meta = CIFAR10.meta | {"md5": None}

    if wanted.verify:
        meta = (CIFAR10.meta["filename"], CIFAR10.meta["md5"])
        published = dict([*CIFAR10.train_list, *CIFAR10.test_list, meta])
        _download.verify(NAME, [(file, published[file.name]) for file in files])
    batches = Batches(str(wanted.data_dir))
    return torch.from_numpy(batches.data).permute(0, 3, 1, 2), torch.tensor(batches.targets)
