"""Fashion-MNIST: 60,000 and 10,000 pictures of clothes, padded from 28x28 to 32x32."""

from __future__ import annotations

from training.datasets import Images, ImageSelection, _idx

IMAGE_SIZE = 32
TRAINING = (60_000, 1, 10)
FILES = {
    "FashionMNIST/raw/train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "FashionMNIST/raw/train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "FashionMNIST/raw/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
SOURCES = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
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


def load(image_selection: ImageSelection) -> Images:
    """Return 60,000 or 10,000 images of 1x32x32. Downloads the files if they are missing. Raises:
    DataError."""
    pixels, labels = _idx.load_idx("fashion_mnist", "FashionMNIST/raw", image_selection)
    return Images(pixels, labels, len(CLASSES), mean=(0.286,), std=(0.353,), names=CLASSES)
