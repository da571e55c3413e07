"""What a rank reports before its first step."""

from __future__ import annotations

import os
from collections.abc import Iterator

import torch

from training.evaluate import CONFUSION_CLASSES
from training.loop import Trainer
from training.wire.events import Started


def started(trainer: Trainer, backend: str) -> Started:
    """What the rank is about to do, over this backend of torch.distributed."""
    return Started(
        trainer.place.rank,
        os.getpid(),
        trainer.place.world_size,
        str(trainer.device),
        backend,
        torch.__version__,
        torch.get_num_threads(),
        sum(parameter.numel() for parameter in trainer.net.parameters()),
        trainer.schedule.steps,
        trainer.schedule.steps_per_epoch,
        len(trainer.train_set),
        len(trainer.test_set),
        trainer.step,
    )


def remarks(trainer: Trainer) -> Iterator[str]:
    """What a reader of the figures should know, one line each."""
    train_set = trainer.train_set
    test_set = trainer.test_set
    yield from trainer.resumed.remarks
    yield from dict.fromkeys((*train_set.remarks, *test_set.remarks, *trainer.shard.remarks()))
    if test_set.classes > CONFUSION_CLASSES:
        yield (
            f"{test_set.classes} classes: the report of each class and the confusion matrix are "
            f"made for at most {CONFUSION_CLASSES}"
        )
    if trainer.place.world_size > 1 and not trainer.traits.exact:
        yield from _approximate(trainer)


def _approximate(trainer: Trainer) -> Iterator[str]:
    """What an approximate sync method means for the figures."""
    job = trainer.job
    if trainer.traits.settles:
        yield f"--sync {job.sync}: the ranks' models differ between the steps that make them equal"
    else:
        yield (
            f"--sync {job.sync}: the ranks' models differ for good: rank 0's is tested and saved, "
            "and each rank's own accuracy is reported beside it"
        )
    if job.batch_norm == "sync":
        yield (
            "--batch-norm sync: the ranks wait for each other in every BatchNorm, even where "
            f"--sync {job.sync} does not"
        )
