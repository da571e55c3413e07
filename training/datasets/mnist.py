"""MNIST: 60,000 and 10,000 handwritten digits, padded from 28x28 to 32x32."""

from __future__ import annotations

from training.datasets import Images, Wanted, _idx

IMAGE_SIZE = 32
TRAINING = (60_000, 1, 10)
FILES = (
    "MNIST/raw/train-images-idx3-ubyte.gz",
    "MNIST/raw/train-labels-idx1-ubyte.gz",
    "MNIST/raw/t10k-images-idx3-ubyte.gz",
    "MNIST/raw/t10k-labels-idx1-ubyte.gz",
)
DOWNLOAD_MB = 12


def load(wanted: Wanted) -> Images:
    """60,000 or 10,000 images of 1x32x32. Downloads the files where they are missing. Raises:
    DataError."""
    pixels, labels = _idx.tensors("mnist", "MNIST", wanted)
    return Images(pixels, labels, 10, mean=(0.1307,), std=(0.3081,))
