"""The interface of a data set: images in memory as uint8, indexed directly and normalised on the
device.

Each module in this folder is one data set, with a function
`load(image_selection: ImageSelection) -> Images`. If its name takes an argument, that comes first.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from training import registry
from training.job import Job


class DataError(Exception):
    """A data set that this host cannot load; the text says where, why and what to do."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"data set {name} on {platform.node()}: {text}")

    @classmethod
    def missing_package(cls, name: str, package: str, error: ImportError) -> DataError:
        """Return the error of a package that is not installed."""
        install = f"install it with {sys.executable} -m pip install {package}"
        return cls(name, f"{package} is missing ({error}): {install}")


@dataclass(frozen=True)
class ImageSelection:
    """Which images of a data set.

    `split` is "train" or "test"; `data_dir` the folder of its files on this host; `verify` refuses
    files whose checksum is not the published one; `size` is the side to which images of several
    sizes are resized (0: the data set chooses). At most `limit` images are used (0: all); `chosen`
    says which, so a data set of single files reads only those.
    """

    split: str
    data_dir: Path
    verify: bool = True
    size: int = 0
    limit: int = 0
    seed: int = 0

    def chosen(self, count: int) -> Tensor:
        """Return the indices (n,) int64 of the images to use, of `count`: a random choice by the
        seed, or all."""
        if not 0 < self.limit < count:
            return torch.arange(count)
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randperm(count, generator=generator)[: self.limit]


@dataclass(frozen=True)
class Images:
    """One split of a data set.

    `pixels` (N, C, H, W) uint8; `labels` (N,) int64 in [0, `classes`); `mean` and `std` per
    channel, of pixels scaled to [0, 1]; `names` of the classes, where they have any; `size`, the
    side to which a batch's images are resized (0: they keep theirs); `remarks`: what a reader of
    the figures should know, one line each.
    """

    pixels: Tensor
    labels: Tensor
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    names: tuple[str, ...] = ()
    size: int = 0
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        """Return the channels of an image."""
        return self.pixels.shape[1]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width of a batch's images."""
        height, width = (self.size, self.size) if self.size else self.pixels.shape[2:]
        return self.channels, height, width

    def batch(self, indices: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the images (n, C, H, W) float32, normalised, and the labels (n,) int64 at
        `indices` (n,) int64, both on `device`."""
        mean = _scale_to_bytes(self.mean, device)
        std = _scale_to_bytes(self.std, device)
        # index_select is many times faster than self.pixels[indices].
        pixels = _move_to(self.pixels.index_select(0, indices), device).float()
        if self.size and pixels.shape[1:] != self.shape:
            # Antialiased, or a much smaller image would be a sample of its pixels.
            pixels = interpolate(pixels, (self.size, self.size), mode="bilinear", antialias=True)
        return pixels.sub_(mean).div_(std), _move_to(self.labels.index_select(0, indices), device)


def _move_to(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device. A GPU copies it asynchronously, so the host does not wait
    for earlier work on the GPU."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@cache
def _scale_to_bytes(figures: tuple[float, ...], device: torch.device) -> Tensor:
    """Scale a number of each channel to pixels from 0 to 255, as (C, 1, 1)."""
    return torch.tensor(figures, device=device).view(-1, 1, 1) * 255


def load(job: Job, split: str) -> Images:
    """Return a split of the job's data set. Raises: DataError."""
    load_split = registry.load_function("datasets", job.dataset, "load")
    data_folder = Path(os.path.expanduser(job.data_dir))
    image_selection = ImageSelection(
        split, data_folder, job.verify_data, job.image_side, job.limit, job.seed
    )
    images: Images = replace(load_split(image_selection), size=job.image_size)
    if len(images) < job.limit:
        remark = f"--limit {job.limit}: all {len(images)} {split} images are used"
        return replace(images, remarks=(*images.remarks, remark))
    if not 0 < job.limit < len(images):
        return images
    chosen_indices = image_selection.chosen(len(images))
    return replace(
        images, pixels=images.pixels[chosen_indices], labels=images.labels[chosen_indices]
    )
