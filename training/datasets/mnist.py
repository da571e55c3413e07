"""MNIST: 60,000 and 10,000 handwritten digits, padded from 28x28 to 32x32.

Reads the four published .gz files in `MNIST/raw` of the data folder (torchvision's place for them) where they lie, or the
unpacked ones, for which there is no published checksum.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.nn.functional import pad

from training.datasets import Images, _cache, _download

NAME = "mnist"
STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def load(split: str, data_dir: Path, verify: bool, size: int = 0) -> Images:
    """60,000 or 10,000 images of 1x32x32. Downloads the files where they are missing. Raises: DataError."""
    raw = data_dir / "MNIST" / "raw"
    pixels, labels = _cache.tensors(
        NAME,
        split if verify else f"{split}-unverified",
        partial(_find, raw, split),
        partial(_fetch, raw),
        partial(_decode, verify),
    )
    return Images(pixels, labels, 10, mean=(0.1307,), std=(0.3081,))


def _find(raw: Path, split: str) -> list[Path]:
    return [_file(raw, stem) for stem in STEMS[split]]


def _file(raw: Path, stem: str) -> Path:
    packed, plain = raw / f"{stem}.gz", raw / stem
    return plain if plain.exists() and not packed.exists() else packed


def _fetch(raw: Path) -> None:
    _download.torchvision(NAME)
    from torchvision.datasets import MNIST

    missing = {path.name for split in STEMS for path in _find(raw, split) if not path.exists()}
    with _download.incoming(NAME, raw, sorted(missing)) as inbox:
        for file, md5 in MNIST.resources:
            if file in missing:
                _download.download(NAME, [mirror + file for mirror in MNIST.mirrors], inbox, md5, raw).rename(raw / file)


def _decode(verify: bool, files: Sequence[Path]) -> _cache.Tensors:
    _download.torchvision(NAME)
    from torchvision.datasets.mnist import MNIST, read_image_file, read_label_file

    if verify:
        published = dict(MNIST.resources)
        _download.verify(NAME, [(file, published[file.name]) for file in files if file.suffix == ".gz"])
    with TemporaryDirectory() as unpacked:
        images, labels = (_unpack(file, Path(unpacked)) for file in files)
        return pad(read_image_file(str(images)).unsqueeze(1), (2, 2, 2, 2)), read_label_file(str(labels))


def _unpack(file: Path, folder: Path) -> Path:
    if file.suffix != ".gz":
        return file
    with gzip.open(file) as packed, open(folder / file.stem, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return folder / file.stem
