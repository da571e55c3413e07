"""One rank of bench/iteration.py: times the plain program and our jobs in one process, one after
another, in rounds.

Each turn has a new process group, model and optimiser. Rank 0 writes a JSON object per round: for
each contender the mean over the ranks of its seconds per iteration, (end of the last step - end of
the first) / (steps - 1), and of its CPU seconds and page faults per iteration, which depend less on
other load (they include making model and groups).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import resource
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from parts import reference_ddp
from parts.contenders import REFERENCE, Contender, chosen
from training import datasets
from training.compute import M_MMAP_MAX, M_TRIM_THRESHOLD, keep_freed_memory
from training.datasets import Images
from training.job import Job
from training.loop import Trainer
from training.place import Place
from training.reports import CompletedStep, StepReporter

M_MMAP_THRESHOLD = -3
MMAP_MAX, MMAP_THRESHOLD, TRIM_THRESHOLD = 65536, 32 << 20, 64 << 20
"""What glibc's own settings come to in a process that has freed a block of 32 MiB or more, as a
training step does."""
PATIENCE = timedelta(minutes=10)


class Timed(StepReporter):
    """A report that keeps when each step ended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.ends: list[float] = []

    def report(self, made: CompletedStep) -> None:
        """Keeps the step's end and reports it."""
        assert isinstance(made.lap.end, float)
        self.ends.append(made.lap.end)
        super().report(made)


class Contest:
    """One rank's part. `images`: the training set, the same tensors for all."""

    def __init__(
        self, images: Images, steps: int, contenders: Sequence[Contender], arguments: Sequence[str]
    ) -> None:
        self.images, self.steps = images, steps
        self.jobs = {
            c.name: Job.parse((*c.words(), "--steps", str(steps), *arguments)) for c in contenders
        }
        self.place = Place.read()
        master = (self.place.master_address, self.place.master_port)
        self.store = distributed.TCPStore(  # type: ignore[attr-defined]
            *master, self.place.world_size, self.place.rank == 0, PATIENCE
        )

    def run(self, number: int, name: str) -> list[float]:
        """One contender's turn of round `number`: seconds, CPU seconds and page faults per
        iteration, the ranks' mean."""
        store = distributed.PrefixStore(f"{number}/{name}", self.store)  # type: ignore[attr-defined]
        rank, world_size = self.place.rank, self.place.world_size
        distributed.init_process_group(
            "gloo", store=store, timeout=PATIENCE, rank=rank, world_size=world_size
        )
        distributed.barrier()
        before = usage()
        ends = self.reference() if name == REFERENCE else self.ours(self.jobs[name])
        cpu, faults = ((now - then) / len(ends) for now, then in zip(usage(), before, strict=True))
        figures = torch.tensor(
            [(ends[-1] - ends[0]) / (len(ends) - 1), cpu, faults], dtype=torch.float64
        )
        distributed.all_reduce(figures)
        distributed.destroy_process_group()
        gc.collect()  # hooks and models hold each other
        mean: list[float] = (figures / self.place.world_size).tolist()
        return mean

    def reference(self) -> list[float]:
        """The plain program, with memory as glibc manages it by itself."""
        libc = ctypes.CDLL(None)
        for setting, value in (
            (M_MMAP_MAX, MMAP_MAX),
            (M_MMAP_THRESHOLD, MMAP_THRESHOLD),
            (M_TRIM_THRESHOLD, TRIM_THRESHOLD),
        ):
            libc.mallopt(setting, value)
        libc.malloc_trim(0)
        return reference_ddp.train(
            self.images.pixels, self.images.labels, self.steps, quiet=self.place.rank > 0
        )

    def ours(self, job: Job) -> list[float]:
        """A job, as `python -m training` would train it."""
        keep_freed_memory()
        ctypes.CDLL(None).malloc_trim(
            0
        )  # as in a process of its own: no heap in pieces that another contender has left
        trainer = Trainer(job, self.place, torch.device("cpu"), self.images, self.images)
        timed = Timed(self.place.rank, job, trainer.schedule)
        trainer.reporter = timed
        trainer.train_epoch()
        return timed.ends


def usage() -> tuple[float, int]:
    """This process's CPU seconds and page faults so far."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def training_set(data_dir: str, steps: int) -> tuple[Images, list[str]]:
    """As many images as the steps need, of CIFAR-10 in a folder or synthetic ones; and the job's
    arguments for them."""
    arguments = ["--dataset", "synthetic"]
    if data_dir:
        arguments = ["--dataset", "cifar10", "--data-dir", data_dir, "--no-verify-data"]
    images = datasets.load(Job.parse(arguments), "train")
    needed = -(-steps * reference_ddp.BATCH_SIZE // len(images))
    if needed == 1:
        return images, arguments
    pixels, labels = images.pixels.repeat(needed, 1, 1, 1), images.labels.repeat(needed)
    return Images(pixels, labels, images.classes, images.mean, images.std), arguments


def silence() -> int:
    """Lets what is written to stdout, a rank's events and lines, go nowhere from now on: a
    descriptor of where it led."""
    out, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    return out


def main() -> None:
    """One rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contenders", nargs="*", default=[])
    parser.add_argument("--add", action="append", default=[])
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the first round, which says who begins"
    )
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--data-dir", default="")
    given = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    contenders = chosen(given.contenders, given.add)
    names = [REFERENCE, *(contender.name for contender in contenders)]
    images, arguments = training_set(given.data_dir, given.steps)
    out = silence()
    contest = Contest(images, given.steps, contenders, arguments)
    for number in range(given.first, given.first + given.rounds):
        turn = number % len(names)
        order, began = names[turn:] + names[:turn], round(time.time())
        found = {name: contest.run(number, name) for name in order}
        if contest.place.rank == 0:
            kinds = zip(
                ("seconds", "cpu", "faults"), zip(*found.values(), strict=True), strict=True
            )
            figures = {
                kind: dict(zip(order, (round(value, 5) for value in of_all), strict=True))
                for kind, of_all in kinds
            }
            said = {"round": number, "began": began, "order": order} | figures
            os.write(out, f"{json.dumps(said)}\n".encode())
    os._exit(0)  # the store's threads would wait for ranks that have ended


if __name__ == "__main__":
    main()
