"""LeNet-5 for 32x32 images: tanh and average pooling, 61,706 parameters for one channel and ten
classes."""

from torch import nn
from torch.nn import Module

IMAGE_SIZES = (32, 35)
PARAMETERS = (60_706, 150, 85)


def build(channels: int, classes: int) -> Module:
    """Build the model: (N, channels, 32, 32) float32 to (N, classes) logits."""
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(120, 84), nn.Tanh()),
        nn.Linear(84, classes),
    )
