"""What the data sets have in common: images in memory as uint8, indexed directly and normalised on the device.

Each module here is one data set, with `load(split, data_dir, verify) -> Images`, where `split` is "train" or "test",
`data_dir` the folder of its files on this host, and `verify` refuses files whose checksum is not the published one.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch


class DataError(Exception):
    """A data set that this host cannot give; the text says where, why and what to do."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"data set {name} on {platform.node()}: {text}")


@dataclass(frozen=True)
class Images:
    """One split of a data set.

    `pixels` (N, C, H, W) uint8; `labels` (N,) int64 in [0, `classes`); `mean` and `std` per channel, of
    pixels scaled to [0, 1].
    """

    pixels: torch.Tensor
    labels: torch.Tensor
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        """Channels of an image."""
        return self.pixels.shape[1]

    def batch(self, indices: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The images (n, C, H, W) float32, normalised, and the labels (n,) int64 at `indices` (n,) int64, both on `device`."""
        pixels = self.pixels[indices].to(device).float()
        mean, std = (torch.tensor(figures, device=device).view(-1, 1, 1) for figures in (self.mean, self.std))
        return pixels.sub_(mean * 255).div_(std * 255), self.labels[indices].to(device)
