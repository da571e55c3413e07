"""The models are those of the experiments they are named after."""

import pytest
import torch

from training import registry


def parameters(name: str, channels: int, classes: int) -> int:
    return sum(p.numel() for p in registry.load("models", name).build(channels, classes).parameters())


def test_parameter_counts() -> None:
    assert parameters("vgg11", 3, 10) == 9_231_114
    assert parameters("lenet5", 1, 10) == 61_706


@pytest.mark.parametrize("name", registry.names("models"))
@pytest.mark.parametrize("channels", [1, 3])
def test_a_model_gives_a_logit_per_class(name: str, channels: int) -> None:
    model = registry.load("models", name).build(channels, 7)
    assert model(torch.zeros(2, channels, 32, 32)).shape == (2, 7)
