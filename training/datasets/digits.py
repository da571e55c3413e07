"""1,797 handwritten digits from the file beside this module (see digits.md): no download is needed.

The 8x8 images with values 0 to 16 become 32x32 with values 0 to 255. The first 1,437 are for
training, the last 360 for testing.

The file holds the images, then the labels, one byte per value. It is made by

    d = sklearn.datasets.load_digits()
    values = d.data.astype("uint8").tobytes() + d.target.astype("uint8").tobytes()
    open("digits.gz", "wb").write(gzip.compress(values, 9, mtime=0))
"""

from __future__ import annotations

import gzip
from pathlib import Path

import torch

from training.datasets import Images, ImageSelection

IMAGE_SIZE = 32
FILES = ()
TRAINING = (1437, 1, 10)
SAMPLES = 1797
SIDE = 8
FILE = Path(__file__).with_name("digits.gz")


def load(image_selection: ImageSelection) -> Images:
    """Return 1,437 or 360 images of 1x32x32. Reads the shipped file only."""
    values = torch.frombuffer(bytearray(gzip.decompress(FILE.read_bytes())), dtype=torch.uint8)
    split_slice = (
        slice(TRAINING[0]) if image_selection.split == "train" else slice(TRAINING[0], SAMPLES)
    )
    pixels = values[: SAMPLES * SIDE * SIDE].view(SAMPLES, 1, SIDE, SIDE)[split_slice]
    labels = values[SAMPLES * SIDE * SIDE :][split_slice].long()
    # As int, since 16 * 255 does not fit a byte.
    pixels = (pixels.int() * 255 // 16).to(torch.uint8)
    return Images(
        pixels.repeat_interleave(4, 2).repeat_interleave(4, 3),
        labels,
        10,
        mean=(0.305,),
        std=(0.376,),
    )
