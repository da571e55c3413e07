"""VGG-11 with BatchNorm and one linear layer, for 32x32 images: 9,231,114 parameters for three
channels and ten classes."""

from torch import nn
from torch.nn import Module

IMAGE_SIZES = (32, 63)
LR = 0.01
PARAMETERS = (9_224_256, 576, 513)
POOL = 0
LAYERS = (64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL)
"""Output channels of each 3x3 convolution, and where 2x2 max-pooling stands."""


def build(channels: int, classes: int) -> Module:
    """Build the model: (N, channels, 32, 32) float32 to (N, classes) logits."""
    layers: list[Module] = []
    for width in LAYERS:
        if width == POOL:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [
            nn.Conv2d(channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, classes))
