"""Images in the file format of MNIST: 60,000 and 10,000 of 28x28, padded to 32x32.

Reads the four published .gz files in `<kind>/raw` of the data folder, where torchvision keeps them,
or the unpacked files, for which there is no published checksum. `kind` is the name of the data
set's class in torchvision.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.nn.functional import pad

from training.datasets import ImageSelection, _cache, _download

STEMS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def load_idx(
    name: str,
    kind: str,
    published: Mapping[str, str],
    sources: Sequence[str],
    wanted: ImageSelection,
) -> _cache.PixelsAndLabels:
    """Return pixels (N, 1, 32, 32) and labels. Download the files if they are missing.

    `published` and `sources` are the `FILES` and `SOURCES` of the data set. Raises: DataError.
    """
    sums = {Path(file).name: md5 for file, md5 in published.items()}
    raw = wanted.data_dir / kind / "raw"
    return _cache.load_tensors(
        name,
        _cache.cached_split(wanted),
        partial(_find, raw, wanted.split),
        partial(_fetch, name, raw, sums, sources),
        partial(_decode, name, sums if wanted.verify else {}),
    )


def _find(raw: Path, split: str) -> list[Path]:
    return [_file(raw, stem) for stem in STEMS[split]]


def _file(raw: Path, stem: str) -> Path:
    packed = raw / f"{stem}.gz"
    plain = raw / stem
    return plain if _cache.is_there(plain) and not _cache.is_there(packed) else packed


def _fetch(name: str, raw: Path, sums: Mapping[str, str], sources: Sequence[str]) -> None:
    _download.require_torchvision(name)
    missing = {path.name for split in STEMS for path in _find(raw, split) if not path.exists()}
    with _download.download_folder(name, raw, sorted(missing)) as inbox:
        for file, md5 in sums.items():
            if file in missing:
                urls = [source + file for source in sources]
                _download.download_file(name, urls, inbox, md5, raw).rename(raw / file)


def _decode(name: str, sums: Mapping[str, str], files: Sequence[Path]) -> _cache.PixelsAndLabels:
    """Read the files, those that have one of these MD5 `sums` only if they have it."""
    _download.require_torchvision(name)
    from torchvision.datasets.mnist import read_image_file, read_label_file

    _download.verify_checksums(
        name, [(file, sums[file.name]) for file in files if file.name in sums]
    )
    images, labels = files
    with TemporaryDirectory() as unpacked:
        with _cache.name_damaged_file(images):
            pixels = read_image_file(str(_unpack(images, Path(unpacked)))).unsqueeze(1)
        with _cache.name_damaged_file(labels):
            classes = read_label_file(str(_unpack(labels, Path(unpacked))))
    return pad(pixels, (2, 2, 2, 2)), classes


def _unpack(file: Path, folder: Path) -> Path:
    if file.suffix != ".gz":
        return file
    with gzip.open(file) as packed, open(folder / file.stem, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return folder / file.stem
