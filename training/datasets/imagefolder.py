"""The user's own images, in a folder per class as in torchvision's ImageFolder: `imagefolder:PATH`
on each host.

PATH/train/<class>/*.jpg are for training, PATH/val (or PATH/test) for testing. Without PATH/train
the classes are folders of PATH itself, and a tenth of the images, the same in every run, is for
testing. Each image is cropped to its centre square and resized. Pillow reads it once; then it is in
the cache.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

from training.datasets import DataError, Images, ImageSelection
from training.datasets._cache import UNREADABLE, PixelsAndLabels, list_some, load_tensors

FORM = "imagefolder:PATH"
NAME = "imagefolder"
DEFAULT_SIZE = 64
SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""The figures of ImageNet."""
DECODING = 2
"""The version of the decoding; the cache of another version is not used."""


@dataclass(frozen=True)
class ImageListing:
    """The files of a split, and the class of each: its index in `names`."""

    files: tuple[Path, ...]
    labels: tuple[int, ...]
    names: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def of(self, indices: Sequence[int]) -> ImageListing:
        """Return some of the files, in this order."""
        files = tuple(self.files[index] for index in indices)
        labels = tuple(self.labels[index] for index in indices)
        return replace(self, files=files, labels=labels)


def load(path: str, wanted: ImageSelection) -> Images:
    """Return the images of a split, (N, 3, size, size). Raises: DataError."""
    root = Path(os.path.expanduser(path))
    side = wanted.size or DEFAULT_SIZE
    try:
        os.stat(root)
        whole = _choose_images(root, wanted.split)
    except OSError as error:
        where = f"{error.filename}: {error.strerror}"
        raise DataError(
            NAME, f"{where}: write imagefolder:PATH, a folder on this host that can be read"
        ) from error
    listing = whole.of(wanted.chosen(len(whole.files)).tolist())
    decode = partial(_decode, listing.labels, side)
    pixels, labels = load_tensors(
        NAME, wanted.split, lambda: listing.files, lambda: None, decode, _key(listing, root, side)
    )
    # The name of a folder may be any bytes.
    names = tuple(name.encode("utf-8", "backslashreplace").decode() for name in listing.names)
    return Images(pixels, labels, len(names), MEAN, STD, names, remarks=listing.remarks)


def _key(listing: ImageListing, root: Path, side: int) -> str:
    """Return what decides on the images besides the files themselves."""
    return repr(
        (DECODING, side, listing.names, [str(file.relative_to(root)) for file in listing.files])
    )


def _choose_images(root: Path, split: str) -> ImageListing:
    train = root / "train"
    if not train.is_dir():
        return _split_off_tenth(root, _list_classes(root), split)
    test = next((root / name for name in ("val", "test") if (root / name).is_dir()), None)
    if not test:
        raise DataError(
            NAME,
            f"{root} has a folder train, but neither val nor test: put the test images into one of "
            "them",
        )
    listings = {"train": _list_classes(train), "test": _list_classes(test)}
    ours, theirs = ({*listings[name].names} for name in ("train", "test"))
    if ours != theirs:
        one, other = (train, test) if ours - theirs else (test, train)
        odd = ", ".join(sorted(ours - theirs or theirs - ours))
        raise DataError(
            NAME,
            f"{one} has the classes {odd}, but {other} has not: both need the same folders",
        )
    return listings[split]


def _split_off_tenth(root: Path, whole: ImageListing, split: str) -> ImageListing:
    """Return the split of a folder without one: a tenth of the images is for testing."""
    count = len(whole.files)
    if count < 2:
        raise DataError(NAME, f"{root} has only one image: at least two are needed")
    chosen = {*random.Random(0).sample(range(count), max(1, count // 10))}
    kept = [index for index in range(count) if (index in chosen) == (split == "test")]
    remark = (
        f"{root} has no folder train: {len(chosen)} of its {count} images, chosen at random, are "
        "for testing"
    )
    return replace(whole.of(kept), remarks=(remark,))


def _list_classes(folder: Path) -> ImageListing:
    """Return the images below the folder of each class. Raises: DataError, OSError."""
    names = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".")
    )
    if not names:
        raise DataError(
            NAME, f"{folder} has no folders: put the images of each class into a folder of its own"
        )
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        of_class = _list_images(folder / name)
        if not of_class:
            suffixes = " ".join(SUFFIXES)
            advice = "add some, or remove the folder"
            raise DataError(NAME, f"{folder / name} has no images ({suffixes}): {advice}")
        files += of_class
        labels += [label] * len(of_class)
    return ImageListing(tuple(files), tuple(labels), tuple(names))


def _list_images(folder: Path) -> list[Path]:
    """Return the images in a folder and below it. Raises: OSError."""

    def refuse(error: OSError) -> None:
        raise error

    walk = os.walk(folder, followlinks=True, onerror=refuse)
    return sorted(
        Path(at) / file
        for at, _, files in walk
        for file in files
        if file.lower().endswith(SUFFIXES)
    )


def _decode(labels: Sequence[int], side: int, files: Sequence[Path]) -> PixelsAndLabels:
    """Decode all images to squares of `side` pixels. Raises: DataError, which names those that
    cannot be read."""
    try:
        from PIL import Image as pillow
    except ImportError as error:
        raise DataError.missing_package(NAME, "pillow", error) from error
    pixels = _reserve_pixels(len(files), side)

    def read(number: int) -> str:
        """Read one image. Return why it cannot be read, or "" if it can."""
        try:
            with pillow.open(files[number]) as image:
                pixels[number] = _crop_square(image, side)
        except (*UNREADABLE, SyntaxError, pillow.DecompressionBombError) as error:
            return f"{files[number]} ({error})"
        return ""

    # Decoding releases Python's lock, so threads share the work.
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        broken = [why for why in threads.map(read, range(len(files))) if why]
    if broken:
        what = "it" if len(broken) == 1 else "them"
        raise DataError(NAME, f"cannot read {list_some(broken)}: replace or remove {what}")
    return pixels, torch.tensor(labels)


def _reserve_pixels(count: int, side: int) -> Tensor:
    """Reserve memory for so many images, (count, 3, side, side) uint8. Raises: DataError."""
    try:
        return torch.empty(count, 3, side, side, dtype=torch.uint8)
    except RuntimeError as error:
        needed = f"{count} images of {side}x{side} need {count * 3 * side**2 / 1e9:.1f} GB"
        raise DataError(
            NAME, f"{needed} of memory, which is not free: use a smaller --image-size, or --limit"
        ) from error


def _crop_square(image: Image, side: int) -> Tensor:
    """Return an image's centre square, (3, side, side) uint8. Raises: what Pillow raises,
    ValueError."""
    from PIL.Image import Resampling

    extrema: Any = image.getextrema() if image.mode in ("I", "F") else (0, 0)
    low, high = extrema
    deep = image.mode.startswith("I;16") or (
        image.mode == "I" and low >= 0 and 255 < high <= 65_535
    )
    if not deep and (low < 0 or high > 255 or (image.mode == "F" and 0 < high <= 1)):
        raise ValueError(
            f"its pixels are numbers from {low:g} to {high:g}: save it with 8 or 16 bits"
        )
    if deep:  # Pillow would cut them off at 255
        image = image.convert("I").point(lambda grey: grey * (1 / 257)).convert("L")
    width, height = image.size
    shortest = min(image.size)
    left = (width - shortest) // 2
    top = (height - shortest) // 2
    square = image.convert("RGB").crop((left, top, left + shortest, top + shortest))
    square = square.resize((side, side), Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8)
    return pixels.view(side, side, 3).permute(2, 0, 1)
