"""The loss and accuracy of a model on a whole split, each rank taking its share and the sums merged exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

from training.datasets import Images
from training.place import Place
from training.shard import share

CHUNK = 64
"""Images that go through the model at a time."""


@dataclass(frozen=True)
class Evaluation:
    """Mean cross-entropy and fraction classified right over `samples`, equal on all ranks; `seconds` are this rank's."""

    loss: float
    accuracy: float
    samples: int
    seconds: float


@torch.no_grad()
def evaluate(model: nn.Module, images: Images, place: Place, device: torch.device) -> Evaluation:
    """Evaluates the bare model (not a wrapped one: shares differ in length). Called by all ranks.

    Summed in float64, in which the merged counts are exact too.
    """
    began = time.perf_counter()
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    own = share(torch.arange(len(images)), place.rank, place.world_size)
    for indices in torch.split(own, CHUNK):
        pixels, labels = images.batch(indices, device)
        logits = model(pixels)
        sums[0] += cross_entropy(logits, labels, reduction="none").double().sum()
        sums[1] += (logits.argmax(1) == labels).sum()
    model.train()
    if place.world_size > 1:
        distributed.all_reduce(sums)
    loss, correct = sums.tolist()
    return Evaluation(loss / len(images), correct / len(images), len(images), time.perf_counter() - began)
