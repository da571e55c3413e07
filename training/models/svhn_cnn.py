"""A small convolutional network for 32x32 photographs of digits: 53,762 parameters for three
channels and ten classes."""

from torch import nn
from torch.nn import Module

IMAGE_SIZES = (32, 35)
PARAMETERS = (52_662, 150, 65)


def build(channels: int, classes: int) -> Module:
    """Build the model: (N, channels, 32, 32) float32 to (N, classes) logits."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 7 * 7, 64), nn.ReLU()),
        nn.Linear(64, classes),
    )
