"""Any classification model of torchvision by its name there, with random weights:
`torchvision/resnet50`."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.nn import Module

from training.job import JobError
from training.model_fit import explain_unknown_torchvision_model

FORM = "torchvision/NAME"
IMAGE_SIZES = {
    "alexnet": (63, 0),
    "convnext": (32, 0),
    "densenet": (29, 0),
    "googlenet": (15, 0),
    "inception": (75, 0),
    "maxvit": (224, 224),
    "squeezenet1_0": (21, 0),
    "squeezenet1_1": (17, 0),
    "swin": (4, 0),
    "vgg": (32, 0),
    "vit": (224, 224),
}

MORE: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": True},
    "inception_v3": {"aux_logits": False, "init_weights": True},
}
"""Arguments of models that would otherwise return more than logits."""


def build(name: str, channels: int, classes: int) -> Module:
    """Build the model: (N, channels, H, W) float32 to (N, classes) logits. Raises: JobError, if
    there is none of this name."""
    try:
        from torchvision import models
    except ImportError as error:
        install = f"install it with {sys.executable} -m pip install torchvision"
        raise JobError(
            f"--model torchvision/{name} needs torchvision ({error}): {install}"
        ) from None
    problem = explain_unknown_torchvision_model(name)
    if problem:
        raise JobError(problem)
    net: Module = models.get_model(name, weights=None, num_classes=classes, **MORE.get(name, {}))
    return net if channels == 3 else _of_channels(net, channels)


def _of_channels(net: Module, channels: int) -> Module:
    """Return the model with a first convolution for another number of channels, which repeats the
    weights of the three."""
    path, first = next(
        (path, module) for path, module in net.named_modules() if isinstance(module, nn.Conv2d)
    )
    settings = {
        name: getattr(first, name)
        for name in ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    }
    conv = nn.Conv2d(channels, first.out_channels, bias=first.bias is not None, **settings)
    with torch.no_grad():
        conv.weight.copy_(first.weight[:, torch.arange(channels) % first.in_channels])
        if first.bias is not None and conv.bias is not None:
            conv.bias.copy_(first.bias)
    owner, _, attribute = path.rpartition(".")
    setattr(net.get_submodule(owner), attribute, conv)
    return net
