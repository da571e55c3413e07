"""`python -m training`: one rank of a job, under rankboard's agent, under torchrun, or alone.

Exit codes: 0 done, 1 failed (with a traceback, or a message where a checkpoint cannot be saved), 2
a job, data set or checkpoint that cannot be used (with a message).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NoReturn

import torch
from torch import distributed

from training import datasets
from training.agent.host import stacks
from training.checkpoint.save import CheckpointError
from training.compute import keep_freed_memory
from training.datasets import DataError
from training.evaluate import CONFUSION_CLASSES
from training.job import Job, JobError
from training.loop import Trainer
from training.place import Place
from training.rendezvous import meet_ranks
from training.reports import print_line
from training.wire.enums import Phase
from training.wire.events import emit
from training.wire.rank_events import Entered, Started


def main(argv: Sequence[str]) -> int:
    """Train as the rank that the environment describes. Return the exit code."""
    job = Job.parse(argv)
    place = Place.read()
    if place.folder:
        stacks.register(place.folder)
    try:
        job.check_world(place.world_size)
        run(job, place)
    except (JobError, DataError, CheckpointError) as error:
        sys.stderr.write(f"python -m training: error: {error}\n")
        return 1 if isinstance(error, CheckpointError) else 2
    return 0


def run(job: Job, place: Place) -> None:
    """Load the data, meet the other ranks and train.

    The data come first: while one rank downloads them, the others do not yet wait in a collective,
    which would time out. Raises: JobError, DataError.
    """
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        torch.set_num_threads(int(threads))  # a forked rank loaded torch before this was set
    emit(Entered(place.rank, Phase.LOADING))
    train_set, test_set = (datasets.load(job, split) for split in ("train", "test"))
    emit(Entered(place.rank, Phase.RENDEZVOUS))
    device, backend, why_cpu = meet_ranks(place)
    if device.type == "cpu":
        keep_freed_memory()
    trainer = Trainer(job, place, device, train_set, test_set)
    if place.rank == 0:
        for line in filter(None, (why_cpu, *remarks_before_start(trainer))):
            print_line(line)
    emit(describe_start(trainer, backend))
    trainer.train()
    distributed.destroy_process_group()


def describe_start(trainer: Trainer, backend: str) -> Started:
    """Return the report of what the rank is about to do, over this backend of
    torch.distributed."""
    place = trainer.place
    schedule = trainer.schedule
    return Started(
        place.rank,
        os.getpid(),
        place.world_size,
        str(trainer.device),
        backend,
        torch.__version__,
        torch.get_num_threads(),
        sum(parameter.numel() for parameter in trainer.net.parameters()),
        schedule.steps,
        schedule.steps_per_epoch,
        len(trainer.train_set),
        len(trainer.test_set),
        trainer.step,
    )


def remarks_before_start(trainer: Trainer) -> Iterator[str]:
    """Yield what a reader of the numbers should know, one line each."""
    train_set = trainer.train_set
    test_set = trainer.test_set
    traits = trainer.traits
    yield from trainer.resumed.remarks
    yield from dict.fromkeys((*train_set.remarks, *test_set.remarks, *trainer.shard.remarks()))
    if test_set.classes > CONFUSION_CLASSES:
        yield (
            f"{test_set.classes} classes: the report of each class and the confusion matrix are "
            f"made for at most {CONFUSION_CLASSES}"
        )
    if traits.exact or trainer.is_alone:
        return
    # What an approximate sync method means for the numbers.
    method = f"--sync {trainer.job.sync}"
    if traits.settles:
        yield f"{method}: the ranks' models differ between the steps that make them equal"
    else:
        yield (
            f"{method}: the ranks' models differ for good: rank 0's is tested and saved, "
            "and each rank's own accuracy is reported beside it"
        )
    if trainer.job.batch_norm == "sync":
        yield (
            "--batch-norm sync: the ranks wait for each other in every BatchNorm, even where "
            f"{method} does not"
        )


def end(argv: Sequence[str]) -> NoReturn:
    """Run `main` and end the process with its exit code, at once.

    After a failure the normal shutdown of the interpreter would wait for peers that may be dead.
    The kernel closes the connections.
    """
    code = 1
    try:
        code = main(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - printed, as the interpreter would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    end(sys.argv[1:])
