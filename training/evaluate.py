"""A model's loss, accuracy and confusion matrix on a whole split, each rank taking its part and the
sums merged exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup
from torch.nn import Module
from torch.nn.functional import cross_entropy

from training.batch_norm.layers import batch_dependent
from training.datasets import Images
from training.place import Place

CPU_BATCH = 64
"""The number of images in a batch on a CPU. With 250, VGG-11 leaves the cache and takes 1.2 times
as long per image."""
GPU_BATCH = 512
"""The same on a GPU, which would be idle between smaller batches, for images of 64x64 and less.
Batches of larger images have as many pixels."""
STATISTICS_BATCH = 250
"""The same for a model that normalises a batch by its own statistics: its figures depend on this
number."""
CONFUSION_CLASSES = 100
"""The largest number of classes for which there is a confusion matrix."""


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


Logits = Callable[[Module, Tensor], Tensor]
"""Computes a model's (n, classes) logits for (n, C, H, W) pixels, in the job's precision."""


@torch.no_grad()
def evaluate(
    model: Module,
    images: Images,
    place: Place,
    device: torch.device,
    logits_of: Logits = Module.__call__,
    group: ProcessGroup | None = None,
) -> Evaluation:
    """Evaluate the bare model: a wrapped one would expect as many batches on every rank. Called by
    all ranks, which add up their results in `group`.

    Rank i mod W evaluates the whole of chunk i. So the model sees the same batches with any number
    of ranks: the int64 counts are equal, and the losses too, except for the order in which they are
    added in float64.
    """
    began = time.perf_counter()
    classes = images.classes
    has_confusion = classes <= CONFUSION_CLASSES
    batch_size = STATISTICS_BATCH if batch_dependent(model) else _choose_batch_size(images, device)
    batches = _split_into_batches(len(images), batch_size)[place.rank :: place.world_size]
    # For many classes only the number of correct images is counted.
    cell_count = classes**2 if has_confusion else 1
    class_counts = torch.zeros(cell_count, dtype=torch.int64, device=device)
    total_loss = torch.zeros((), dtype=torch.float64, device=device)
    with evaluation_mode(model):
        for indices in batches:
            pixels, labels = images.batch(indices, device)
            logits = logits_of(model, pixels)
            # In float64, as ranks add up different chunks: their order must hardly matter.
            total_loss += cross_entropy(logits, labels, reduction="none").double().sum()
            predicted_labels = logits.argmax(1)
            if has_confusion:
                class_counts += torch.bincount(
                    labels * classes + predicted_labels, minlength=cell_count
                )
            else:
                class_counts += (predicted_labels == labels).sum()
    if place.world_size > 1:
        distributed.all_reduce(total_loss, group=group)
        distributed.all_reduce(class_counts, group=group)
    samples = len(images)
    matrix = class_counts.view(classes, classes) if has_confusion else class_counts.view(1, 1)
    accuracy = matrix.trace().item() / samples
    confusion = tuple(map(tuple, matrix.tolist())) if has_confusion else ()
    seconds = time.perf_counter() - began
    return Evaluation(total_loss.item() / samples, accuracy, samples, seconds, confusion)


def _choose_batch_size(images: Images, device: torch.device) -> int:
    """Return the number of images in a batch, the same on all ranks."""
    if device.type == "cpu":
        return CPU_BATCH
    _, height, width = images.shape
    return min(GPU_BATCH, max(CPU_BATCH, GPU_BATCH * 64**2 // (height * width)))


def _split_into_batches(count: int, size: int) -> list[Tensor]:
    """Return the indices of `count` images in chunks. A single last image joins the chunk before
    it, as it might give a BatchNorm one value per channel."""
    chunks = list(torch.split(torch.arange(count), size))
    if len(chunks) > 1 and len(chunks[-1]) == 1:
        chunks[-2:] = [torch.cat(chunks[-2:])]
    return chunks


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    """Put the whole model into evaluation mode, and afterwards those layers back into training mode
    that were in it before."""
    training_modules = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training_modules:
            module.training = True
