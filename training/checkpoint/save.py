"""Checkpoints: what a run needs to go on from a step, saved so that no crash, at whatever moment,
costs more than the newest.

    <the run's folder on the host>/checkpoints/step-000200/
        model.pt        rank 0: the settled model, the optimiser's state, the job, its progress
        rankN.pt        each rank: random numbers, the sync method's state, its part of the model
        manifest.json   rank 0: all ranks' files are there; else the checkpoint is incomplete

Where the run may go on without a host (`Place.copies`), the first rank of every host writes
model.pt and manifest.json too. Without an agent, as under torchrun, the folder is `checkpoints`
where the ranks work. Each file is written under another name, synced and renamed, the manifest
last; only then older checkpoints are removed. All files carry the step and the token of the ranks
that wrote them. `torch.load(weights_only=True)` reads them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import distributed, nn

from training.agent.layout import CHECKPOINTS, MANIFEST, STEP
from training.batch_norm.layers import BatchNorm
from training.disk import reason
from training.job import Job, JobError
from training.place import Place
from training.sync import SyncMethod
from training.traits import Traits

MODEL = "model.pt"
PATIENCE = timedelta(minutes=30)
"""How long ranks wait for one with a slow disk."""


class CheckpointError(Exception):
    """A checkpoint that cannot be saved; the text names the folder and says why."""


@dataclass(frozen=True)
class Position:
    """How far a run is, in terms that hold for other numbers of ranks too: after `step` steps it is
    through whole `epochs` and the first `samples` in the order of the next one."""

    step: int
    epochs: int
    samples: int

    @classmethod
    def at(cls, step: int, job: Job, steps_per_epoch: int) -> Position:
        """The position of a job after a step."""
        epochs, steps = divmod(step, steps_per_epoch)
        return cls(step, epochs, steps * job.batch_size * job.accumulate)

    def steps(self, job: Job, steps_per_epoch: int) -> int:
        """How many steps of this job come to the position, or as near before it as they can."""
        return self.epochs * steps_per_epoch + min(
            self.samples // (job.batch_size * job.accumulate), steps_per_epoch
        )


@dataclass(frozen=True)
class Parts:
    """What a checkpoint is taken of: this rank's live objects, and the names of the classes, where
    they have any."""

    net: nn.Module
    optimizer: torch.optim.Optimizer
    method: SyncMethod
    traits: Traits
    batch_norm: BatchNorm
    device: torch.device
    classes: tuple[str, ...]

    def shared(self) -> dict[str, Any]:
        """What is kept for all: the same on every rank, but for what a sync method leaves to rank
        0, such as momentum."""
        optimizer = self.optimizer.state_dict()["state"]
        return {
            "model": self.net.state_dict(),
            "optimizer": optimizer,
            "classes": list(self.classes),
        }

    def own(self) -> dict[str, Any]:
        """What each rank keeps: what of the model is its own, and the optimiser where it follows
        own gradients."""
        state = {"method": self.method.state(), "random": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["random_gpu"] = torch.cuda.get_rng_state(self.device)
        if self.traits.own_optimizer:
            state["optimizer"] = self.optimizer.state_dict()["state"]
        if model := self.batch_norm.own(self.net):
            state["model"] = model
        return state


class Checkpoints:
    """Saves this rank's part of a run's checkpoints. Made, and its methods called, by all ranks at
    once.

    Raises: JobError, where the folder holds another run's.
    """

    def __init__(self, job: Job, place: Place, parts: Parts, steps_per_epoch: int) -> None:
        self.job, self.place, self.parts, self.steps_per_epoch = job, place, parts, steps_per_epoch
        self.folder = Path(place.folder, CHECKPOINTS).absolute()
        self.keeps_model = place.rank == 0 or (
            place.copies and bool(place.folder) and place.local_rank == 0
        )
        # A group of its own: the ordinary one's patience is made for networks, not for disks.
        group = distributed.new_group(backend="gloo", timeout=PATIENCE)
        assert isinstance(group, distributed.ProcessGroup)
        self.group = group
        self._token = self.said_by(0, secrets.token_hex(8))
        if (
            not place.folder
            and job.checkpoint_every
            and (there := complete(self.folder))
            and not self._goes_on_here()
        ):
            raise JobError(
                f"--checkpoint-every {job.checkpoint_every}: {self.folder} holds another run's "
                f"checkpoint of step {there[-1]}: "
                f"go on from it with --resume {CHECKPOINTS}, or move the folder away"
            )

    def _goes_on_here(self) -> bool:
        """Whether the checkpoints to go on from lie where this run's will."""
        return bool(self.job.resume) and any(
            self.folder.samefile(one) for one in search(self.job.resume, self.place)
        )

    def due(self, step: int, steps: int) -> bool:
        """Whether to save after this step of so many."""
        every = self.job.checkpoint_every
        if not every:
            return False
        return (
            step == steps or step % (self.steps_per_epoch if every == "epoch" else int(every)) == 0
        )

    def save(self, step: int) -> int:
        """Saves the model on which the ranks have settled: the bytes that this rank wrote. Raises:
        CheckpointError."""
        where, rank = self.folder / f"{STEP}{step:06}", self.place.rank
        head = {"step": step, "token": self._token, "world_size": self.place.world_size}
        sizes, own = {}, f"rank{rank}.pt"
        with _explained(where, ()):
            where.mkdir(parents=True, exist_ok=True)
            for above in (self.folder, self.folder.parent):
                sync(above)
        with self.parts.batch_norm.agreed(self.parts.net):
            if self.keeps_model:
                position = asdict(Position.at(step, self.job, self.steps_per_epoch))
                model = head | position | {"job": asdict(self.job)} | self.parts.shared()
                with _explained(where, (MODEL,)):
                    sizes[MODEL] = write(where / MODEL, partial(torch.save, model))
        with _explained(where, (own, MODEL) if self.keeps_model else (own,)):
            sizes[own] = write(where / own, partial(torch.save, head | self.parts.own()))
        everybodys = self.gathered(sizes)
        if self.keeps_model:
            self._complete(
                where,
                head,
                {name: size for of_rank in (*everybodys, sizes) for name, size in of_rank.items()},
            )
        self._prune(self.said_by(0, complete(self.folder)[-self.job.checkpoint_keep :]))
        return sum(sizes.values())

    def _complete(self, where: Path, head: dict[str, Any], sizes: dict[str, int]) -> None:
        manifest = head | {"rank": self.place.rank, "time": time.time(), "torch": torch.__version__}
        manifest |= {"job": asdict(self.job), "files": sizes}
        with _explained(where, (MANIFEST,)):
            write(where / MANIFEST, partial(_dump, manifest))
            for older in steps(self.folder):
                if (
                    number(older) > head["step"]
                ):  # of ranks that crashed, or that went on from later than these
                    (older / MANIFEST).unlink(missing_ok=True)

    def _prune(self, kept: list[int]) -> None:
        """Removes all other checkpoints from this host, the first of its ranks doing it."""
        if self.place.local_rank == 0:
            for where in steps(self.folder):
                if number(where) not in kept:
                    (where / MANIFEST).unlink(missing_ok=True)
                    shutil.rmtree(where, ignore_errors=True)

    def gathered(self, own: Any) -> list[Any]:
        """What each rank gives, in their order."""
        everybodys: list[Any] = [None] * self.place.world_size
        distributed.all_gather_object(everybodys, own, group=self.group)
        return everybodys

    def said_by(self, rank: int, said: Any) -> Any:
        """What that rank gives."""
        words = [said]
        distributed.broadcast_object_list(words, src=rank, group=self.group)
        return words[0]


def search(resume: str, place: Place) -> Iterator[Path]:
    """The folders of checkpoints on this host that `--resume` may mean, of all hosts that the run
    had here."""
    root = root_of(resume, place)
    if not os.path.isdir(root):  # False also where it may not be asked
        return
    for folder in (*sorted(root.glob(f"*/{CHECKPOINTS}")), root / CHECKPOINTS, root):
        if os.path.isdir(folder):
            yield folder


def root_of(resume: str, place: Place) -> Path:
    """A path as it is; a name is a run's beside this one."""
    if place.folder and "/" not in resume:
        return Path(place.folder).parent.parent / resume
    return Path(os.path.abspath(os.path.expanduser(resume)))


def steps(folder: Path) -> list[Path]:
    """The folders of the checkpoints in `folder`, complete or not, in the order of their steps."""
    return sorted(
        (path for path in folder.glob(f"{STEP}*") if path.name[len(STEP) :].isdecimal()), key=number
    )


def number(where: Path) -> int:
    """The step of a checkpoint's folder."""
    return int(where.name[5:])


def complete(folder: Path) -> list[int]:
    """The steps whose checkpoints in `folder` are complete, in order."""
    return [number(where) for where in steps(folder) if (where / MANIFEST).is_file()]


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> int:
    """Writes a file, whole or not at all and so that a power cut does not take it: its size in
    bytes. Raises: OSError."""
    beside = path.with_name(f"{path.name}.part")
    with beside.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    beside.replace(path)
    sync(path.parent)
    return size


def sync(folder: Path) -> None:
    """Makes the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dump(content: dict[str, Any], file: IO[bytes]) -> None:
    file.write(json.dumps(content, indent=2).encode() + b"\n")


@contextmanager
def _explained(where: Path, names: Iterable[str]) -> Iterator[None]:
    """Turns a failure to write these files into an error that says what to do, and gives their room
    on the disk back."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        for path in (where / f"{name}{end}" for name in names for end in (".part", "")):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            where.rmdir()
        raise CheckpointError(
            f"cannot save the checkpoint of step {number(where)} in {where.parent}: "
            f"{reason(error)}; make room or access there "
            "(--checkpoint-keep 1 keeps only the newest). The checkpoints before it are as they "
            "were"
        ) from error
