"""ResNet-18 for small images (He et al. 2015, https://arxiv.org/abs/1512.03385): 11,173,962
parameters for three channels and ten classes. Its stem is a 3x3 convolution without stride or
pooling, as is usual for CIFAR-10.
"""

from torch import Tensor, nn
from torch.nn import Module

PARAMETERS = (11_167_104, 576, 513)
WIDTHS = (64, 128, 256, 512)
BLOCKS = 2
"""Residual blocks of each width."""


class Block(Module):
    """Two 3x3 convolutions around which the input goes on as it is, or by a 1x1 convolution where
    the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *(
                nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ),
            *(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)),
        )
        self.shortcut: Module = nn.Identity()
        if (channels, stride) != (width, 1):
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, images: Tensor) -> Tensor:
        """Map (N, channels, H, W) to (N, width, H / stride, W / stride)."""
        out: Tensor = self.residual(images) + self.shortcut(images)
        return out.relu_()


def build(channels: int, classes: int) -> Module:
    """Build the model: (N, channels, H, W) float32 to (N, classes) logits."""
    stem = nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False)
    channels = WIDTHS[0]
    layers: list[Module] = [stem, nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    for width in WIDTHS:
        for number in range(BLOCKS):
            layers.append(Block(channels, width, 2 if number == 0 and width != channels else 1))
            channels = width
    net = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return net
