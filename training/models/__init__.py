"""The models. Each module in this folder is one model, with a function `build(channels, classes) ->
Module`. Where its name takes an argument, that comes first.
"""

from __future__ import annotations

import torch
from torch.nn import Module

from training import registry
from training.job import JobError


def build(name: str, shape: tuple[int, int, int], classes: int) -> Module:
    """Build the model of a name, and test it with one image of the shape (channels, height, width).

    Raises: JobError, if the model does not take such images.
    """
    channels, height, width = shape
    net: Module = registry.load_function("models", name, "build")(channels, classes)
    try:
        with torch.no_grad():
            net.eval()(torch.zeros(1, *shape))
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        why = str(error).partition("\n")[0].rstrip(".")
        advice = "give a size that it takes with --image-size: many take 32, 64 or 224"
        raise JobError(
            f"--model {name} cannot take images of {height}x{width} ({why}): {advice}"
        ) from None
    return net.train()
