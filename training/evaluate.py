"""A model's loss, accuracy and confusion matrix on a whole split, each rank taking its part and the
sums merged exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

from training.batch_norm.layers import batch_dependent
from training.datasets import Images
from training.place import Place

CHUNK = 64
"""Images that go through the model at a time: VGG-11 takes 1.2 times as long for each in chunks of
250, out of the cache."""
GPU_CHUNK = 512
"""The same on a GPU, which would be idle between smaller ones, of images of 64x64 and less; of
larger ones as few as fit."""
BATCH_DEPENDENT_CHUNK = 250
"""The same for a model that normalises a batch by its own statistics, so that its figures depend on
this number."""
CONFUSION_CLASSES = 100
"""Up to so many classes there is a confusion matrix."""


@dataclass(frozen=True)
class Evaluation:
    """Mean cross-entropy and fraction classified right over `samples`, equal on all ranks;
    `seconds` are this rank's.

    `confusion[true][predicted]` counts images; it is empty for more than `CONFUSION_CLASSES`
    classes.
    """

    loss: float
    accuracy: float
    samples: int
    seconds: float
    confusion: tuple[tuple[int, ...], ...] = ()


Logits = Callable[[nn.Module, torch.Tensor], torch.Tensor]
"""Makes a model's (n, classes) logits of (n, C, H, W) pixels, in the precision in which it is
trained."""


@torch.no_grad()
def evaluate(
    model: nn.Module,
    images: Images,
    place: Place,
    device: torch.device,
    logits_of: Logits = nn.Module.__call__,
    group: distributed.ProcessGroup | None = None,
) -> Evaluation:
    """Evaluates the bare model (not a wrapped one: parts differ in length). Called by all ranks,
    which merge in the group.

    Chunk i of the split, whole, is the part of rank i mod W. So the model sees the same batches
    with any number of ranks: the counts, in int64, are the same, and so are the losses, but for the
    order in which they are added up in float64.
    """
    began = time.perf_counter()
    size = BATCH_DEPENDENT_CHUNK if batch_dependent(model) else _chunk(images, device)
    counts = torch.zeros(
        images.classes**2 if images.classes <= CONFUSION_CLASSES else 1,
        dtype=torch.int64,
        device=device,
    )
    loss = torch.zeros((), dtype=torch.float64, device=device)
    with evaluating(model):
        for indices in _chunks(len(images), size)[place.rank :: place.world_size]:
            pixels, labels = images.batch(indices, device)
            logits = logits_of(model, pixels)
            loss += cross_entropy(logits, labels, reduction="none").double().sum()
            counts += _counted(labels, logits.argmax(1), images.classes)
    if place.world_size > 1:
        distributed.all_reduce(loss, group=group)
        distributed.all_reduce(counts, group=group)
    return _merged(loss.item(), counts.cpu(), images, time.perf_counter() - began)


def _chunk(images: Images, device: torch.device) -> int:
    """How many images to take at a time, the same on all ranks."""
    _, height, width = images.shape
    return (
        CHUNK
        if device.type == "cpu"
        else min(GPU_CHUNK, max(CHUNK, GPU_CHUNK * 64**2 // (height * width)))
    )


def _chunks(count: int, size: int) -> list[torch.Tensor]:
    """The indices of so many images in chunks. A last one of a single image, of which a BatchNorm
    may get one value per channel, goes to the chunk before."""
    chunks = list(torch.split(torch.arange(count), size))
    if len(chunks) > 1 and len(chunks[-1]) == 1:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within it the whole model evaluates; after it, trains again what did before: a layer that was
    frozen stays so."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _counted(labels: torch.Tensor, predicted: torch.Tensor, classes: int) -> torch.Tensor:
    """The flat confusion matrix (classes²,) of a chunk, or for many classes only how many are right
    (1,)."""
    if classes > CONFUSION_CLASSES:
        return (predicted == labels).sum().view(1)
    return torch.bincount(labels * classes + predicted, minlength=classes**2)


def _merged(loss: float, counts: torch.Tensor, images: Images, seconds: float) -> Evaluation:
    samples = len(images)
    if images.classes > CONFUSION_CLASSES:
        return Evaluation(loss / samples, counts.item() / samples, samples, seconds)
    confusion = counts.view(images.classes, images.classes)
    accuracy = confusion.trace().item() / samples
    return Evaluation(
        loss / samples, accuracy, samples, seconds, tuple(map(tuple, confusion.tolist()))
    )
