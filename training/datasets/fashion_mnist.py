"""Fashion-MNIST: 60,000 and 10,000 pictures of clothes, padded from 28x28 to 32x32."""

from __future__ import annotations

from training.datasets import Images, Wanted, _idx

IMAGE_SIZE = 32
TRAINING = (60_000, 1, 10)
FILES = (
    "FashionMNIST/raw/train-images-idx3-ubyte.gz",
    "FashionMNIST/raw/train-labels-idx1-ubyte.gz",
    "FashionMNIST/raw/t10k-images-idx3-ubyte.gz",
    "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz",
)
DOWNLOAD_MB = 31
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load(wanted: Wanted) -> Images:
    """60,000 or 10,000 images of 1x32x32. Downloads the files where they are missing. Raises:
    DataError."""
    pixels, labels = _idx.tensors("fashion_mnist", "FashionMNIST", wanted)
    return Images(pixels, labels, len(CLASSES), mean=(0.286,), std=(0.353,), names=CLASSES)
