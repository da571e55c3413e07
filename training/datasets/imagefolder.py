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
from collections.abc import Iterable, Sequence
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
    """The images of a split: the file of each, and its class, an index in `names`."""

    images: tuple[tuple[Path, int], ...]
    names: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def of(self, indices: Iterable[int]) -> ImageListing:
        """Return some of the images, in this order."""
        return replace(self, images=tuple(self.images[index] for index in indices))


def load(path: str, image_selection: ImageSelection) -> Images:
    """Return the images of a split, (N, 3, size, size). Raises: DataError."""
    root_folder = Path(os.path.expanduser(path))
    image_side = image_selection.size or DEFAULT_SIZE
    try:
        os.stat(root_folder)
        all_images = _choose_images(root_folder, image_selection.split)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}"
        advice = "write imagefolder:PATH, a folder on this host that can be read"
        raise DataError(NAME, f"{problem}: {advice}") from error
    chosen_images = all_images.of(image_selection.chosen(len(all_images.images)).tolist())
    image_files = [file for file, _ in chosen_images.images]
    decode = partial(_decode, [label for _, label in chosen_images.images], image_side)
    relative_paths = [str(file.relative_to(root_folder)) for file in image_files]
    # What decides on the images besides the files themselves.
    cache_key = repr((DECODING, image_side, chosen_images.names, relative_paths))
    pixels, labels = load_tensors(
        NAME, image_selection.split, lambda: image_files, lambda: None, decode, cache_key
    )
    # The name of a folder may be any bytes.
    class_names = tuple(
        name.encode("utf-8", "backslashreplace").decode() for name in chosen_images.names
    )
    return Images(
        pixels, labels, len(class_names), MEAN, STD, class_names, remarks=chosen_images.remarks
    )


def _choose_images(root: Path, split: str) -> ImageListing:
    train_folder = root / "train"
    if not train_folder.is_dir():
        return _split_off_tenth(root, _list_classes(root), split)
    test_folders = [root / name for name in ("val", "test") if (root / name).is_dir()]
    if not test_folders:
        advice = "put the test images into one of them"
        raise DataError(NAME, f"{root} has a folder train, but neither val nor test: {advice}")
    listings = {"train": _list_classes(train_folder), "test": _list_classes(test_folders[0])}
    unmatched_names = {*listings["train"].names} ^ {*listings["test"].names}
    if unmatched_names:
        listed_names = ", ".join(sorted(unmatched_names))
        problem = f"{train_folder} or {test_folders[0]} has no classes {listed_names}"
        raise DataError(NAME, f"{problem}: both need the same folders")
    return listings[split]


def _split_off_tenth(root: Path, all_images: ImageListing, split: str) -> ImageListing:
    """Return the split of a folder without one: a tenth of the images is for testing."""
    count = len(all_images.images)
    if count < 2:
        raise DataError(NAME, f"{root} has only one image: at least two are needed")
    # A seed of its own: the split is the same in every run, whatever --seed.
    test_indices = {*random.Random(0).sample(range(count), max(1, count // 10))}
    is_test = split == "test"
    listing = all_images.of(index for index in range(count) if (index in test_indices) == is_test)
    remark = (
        f"{root} has no folder train: {len(test_indices)} of its {count} images, chosen at random, "
        "are for testing"
    )
    return replace(listing, remarks=(remark,))


def _list_classes(folder: Path) -> ImageListing:
    """Return the images below the folder of each class. Raises: DataError, OSError."""
    class_folders = sorted(path for path in folder.iterdir() if path.is_dir())
    class_names = tuple(path.name for path in class_folders if not path.name.startswith("."))
    if not class_names:
        advice = "put the images of each class into a folder of its own"
        raise DataError(NAME, f"{folder} has no folders: {advice}")
    images: list[tuple[Path, int]] = []
    for label, name in enumerate(class_names):
        image_files = _list_images(folder / name)
        if not image_files:
            suffixes = " ".join(SUFFIXES)
            advice = "add some, or remove the folder"
            raise DataError(NAME, f"{folder / name} has no images ({suffixes}): {advice}")
        images += [(file, label) for file in image_files]
    return ImageListing(tuple(images), class_names)


def _list_images(folder: Path) -> list[Path]:
    """Return the images in a folder and below it. Raises: OSError."""

    def refuse(error: OSError) -> None:
        raise error

    image_files: list[Path] = []
    # By default `walk` passes over folders that it cannot read.
    for inner_folder, _, names in os.walk(folder, followlinks=True, onerror=refuse):
        image_files += [
            Path(inner_folder, name) for name in names if name.lower().endswith(SUFFIXES)
        ]
    return sorted(image_files)


def _decode(labels: Sequence[int], side: int, files: Sequence[Path]) -> PixelsAndLabels:
    """Decode all images to squares of `side` pixels. Raises: DataError, which names those that
    cannot be read."""
    try:
        from PIL import Image as pillow
    except ImportError as error:
        raise DataError.missing_package(NAME, "pillow", error) from error
    pixels = _reserve_pixels(len(files), side)

    def read_image(number: int) -> str:
        """Read one image. Return why it cannot be read, or "" if it can."""
        try:
            with pillow.open(files[number]) as image:
                pixels[number] = _crop_square(image, side)
        except (*UNREADABLE, SyntaxError, pillow.DecompressionBombError) as error:
            return f"{files[number]} ({error})"
        return ""

    # Decoding releases Python's lock, so threads share the work.
    with ThreadPoolExecutor(os.cpu_count()) as thread_pool:
        unreadable_images = [why for why in thread_pool.map(read_image, range(len(files))) if why]
    if unreadable_images:
        pronoun = "it" if len(unreadable_images) == 1 else "them"
        raise DataError(
            NAME, f"cannot read {list_some(unreadable_images)}: replace or remove {pronoun}"
        )
    return pixels, torch.tensor(labels)


def _reserve_pixels(count: int, side: int) -> Tensor:
    """Reserve memory for so many images, (count, 3, side, side) uint8. Raises: DataError."""
    try:
        return torch.empty(count, 3, side, side, dtype=torch.uint8)
    except RuntimeError as error:
        needed_memory = f"{count} images of {side}x{side} need {count * 3 * side**2 / 1e9:.1f} GB"
        raise DataError(
            NAME,
            f"{needed_memory} of memory, which is not free: use a smaller --image-size, or --limit",
        ) from error


def _crop_square(image: Image, side: int) -> Tensor:
    """Return an image's centre square, (3, side, side) uint8. Raises: what Pillow raises,
    ValueError."""
    from PIL.Image import Resampling

    pixel_extrema: Any = image.getextrema() if image.mode in ("I", "F") else (0, 0)
    lowest, highest = pixel_extrema
    is_deep = image.mode.startswith("I;16") or (
        image.mode == "I" and lowest >= 0 and 255 < highest <= 65_535
    )
    is_fraction = image.mode == "F" and 0 < highest <= 1
    if not is_deep and (lowest < 0 or highest > 255 or is_fraction):
        raise ValueError(
            f"its pixels are numbers from {lowest:g} to {highest:g}: save it with 8 or 16 bits"
        )
    if is_deep:  # Pillow would cut them off at 255
        image = image.convert("I").point(lambda grey: grey * (1 / 257)).convert("L")
    width, height = image.size
    square_side = min(image.size)
    left = (width - square_side) // 2
    top = (height - square_side) // 2
    square = image.convert("RGB").crop((left, top, left + square_side, top + square_side))
    square = square.resize((side, side), Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8)
    return pixels.view(side, side, 3).permute(2, 0, 1)
