"""MNIST: 60,000 and 10,000 handwritten digits, padded from 28x28 to 32x32."""

from __future__ import annotations

from training.datasets import Images, ImageSelection, _idx

IMAGE_SIZE = 32
TRAINING = (60_000, 1, 10)
FILES = {
    "MNIST/raw/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "MNIST/raw/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "MNIST/raw/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "MNIST/raw/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
SOURCES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
DOWNLOAD_MB = 12


def load(image_selection: ImageSelection) -> Images:
    """Return 60,000 or 10,000 images of 1x32x32. Downloads the files if they are missing. Raises:
    DataError."""
    pixels, labels = _idx.load_idx("mnist", "MNIST/raw", image_selection)
    return Images(pixels, labels, 10, mean=(0.1307,), std=(0.3081,))
