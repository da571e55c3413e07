"""Images in the file format of MNIST: 60,000 and 10,000 of 28x28, padded to 32x32.

Reads the four published .gz files in `<kind>/raw` of the data folder, where torchvision keeps them,
or the unpacked files, for which there is no published checksum. `kind` is the name of the data
set's class in torchvision.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.nn.functional import pad

from training.datasets import Wanted, _cache, _download

STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def tensors(name: str, kind: str, wanted: Wanted) -> _cache.Tensors:
    """Pixels (N, 1, 32, 32) and labels. Downloads the files where they are missing. Raises:
    DataError."""
    raw = wanted.data_dir / kind / "raw"
    return _cache.tensors(
        name,
        _cache.version(wanted),
        partial(_find, raw, wanted.split),
        partial(_fetch, name, kind, raw),
        partial(_decode, name, kind, wanted.verify),
    )


def _find(raw: Path, split: str) -> list[Path]:
    return [_file(raw, stem) for stem in STEMS[split]]


def _file(raw: Path, stem: str) -> Path:
    packed, plain = raw / f"{stem}.gz", raw / stem
    return plain if _cache.there(plain) and not _cache.there(packed) else packed


def _published(name: str, kind: str) -> Any:
    """torchvision's class of the data set, which has the addresses and checksums of its files."""
    _download.torchvision(name)
    from torchvision import datasets

    return getattr(datasets, kind)


def _fetch(name: str, kind: str, raw: Path) -> None:
    published = _published(name, kind)
    missing = {path.name for split in STEMS for path in _find(raw, split) if not path.exists()}
    with _download.incoming(name, raw, sorted(missing)) as inbox:
        for file, md5 in published.resources:
            if file in missing:
                urls = [mirror + file for mirror in published.mirrors]
                _download.download(name, urls, inbox, md5, raw).rename(raw / file)


def _decode(name: str, kind: str, verify: bool, files: Sequence[Path]) -> _cache.Tensors:
    published = dict(_published(name, kind).resources)
    from torchvision.datasets.mnist import read_image_file, read_label_file

    if verify:
        _download.verify(
            name, [(file, published[file.name]) for file in files if file.suffix == ".gz"]
        )
    with TemporaryDirectory() as unpacked:
        images, labels = (_unpack(file, Path(unpacked)) for file in files)
        pixels = read_image_file(str(images)).unsqueeze(1)
        return pad(pixels, (2, 2, 2, 2)), read_label_file(str(labels))


def _unpack(file: Path, folder: Path) -> Path:
    if file.suffix != ".gz":
        return file
    with gzip.open(file) as packed, open(folder / file.stem, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return folder / file.stem
