"""Saving checkpoints, so that a crash at any moment costs no more than the newest.

All ranks write their files, and rank 0 the manifest last; only then older checkpoints are removed.
Where the run may go on without a host (`Place.copies`), the first rank of every host writes model
and manifest too. All files carry the step and the token of the ranks that wrote them.
`torch.load(weights_only=True)` reads them.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import distributed
from torch.distributed import ProcessGroup

from training.agent.layout import CHECKPOINTS, MANIFEST
from training.checkpoint import folders
from training.checkpoint.folders import MODEL
from training.checkpoint.parts import CheckpointParts, RunPosition
from training.job import Job, JobError
from training.place import Place
from training.schedule import Schedule
from training.writing import describe_write_error, make_private_folders, sync_folder, write_synced

PATIENCE = timedelta(minutes=30)
"""How long ranks wait for one with a slow disk."""


class CheckpointError(Exception):
    """A checkpoint that cannot be saved; the text names the folder and says why."""


class Checkpoints:
    """This rank's part of a run's checkpoints. All ranks make it, and call its methods, at once.

    Raises: JobError, where the folder holds checkpoints of another run.
    """

    def __init__(self, job: Job, place: Place, parts: CheckpointParts, schedule: Schedule) -> None:
        self.job = job
        self.place = place
        self.parts = parts
        self.schedule = schedule
        self.folder = Path(place.folder, CHECKPOINTS).absolute()
        copies = place.copies and bool(place.folder) and place.local_rank == 0
        self._keeps_model = place.rank == 0 or copies
        # A group of its own: the patience of the default one is meant for networks, not for disks.
        group = distributed.new_group(backend="gloo", timeout=PATIENCE)
        assert isinstance(group, ProcessGroup)
        self.group = group
        self._token = self.broadcast(0, secrets.token_hex(8))
        if job.checkpoint_every and not place.folder:
            self._check_folder()

    def save(self, step: int) -> int:
        """Save the model on which the ranks have settled. Return the bytes that this rank wrote.
        Raises: CheckpointError."""
        where = folders.step_folder(self.folder, step)
        head = {"step": step, "token": self._token, "world_size": self.place.world_size}
        with _explained(where, ()):
            make_private_folders(where)
            for above in (self.folder, self.folder.parent):
                sync_folder(above)
        sizes = self._write_parts(where, head)
        all_sizes = self.gather(sizes)
        if self._keeps_model:
            files = {
                name: size for of_rank in (*all_sizes, sizes) for name, size in of_rank.items()
            }
            self._write_manifest(where, head, files)
        kept_steps = folders.complete_steps(self.folder)[-self.job.checkpoint_keep :]
        self._prune(self.broadcast(0, kept_steps))
        return sum(sizes.values())

    def gather(self, own: Any) -> list[Any]:
        """Return what each rank gives, in the order of the ranks."""
        all_given: list[Any] = [None] * self.place.world_size
        distributed.all_gather_object(all_given, own, group=self.group)
        return all_given

    def broadcast(self, source: int, value: Any) -> Any:
        """Return the value that the source rank gives."""
        values = [value]
        distributed.broadcast_object_list(values, src=source, group=self.group)
        return values[0]

    def _check_folder(self) -> None:
        """Refuse a folder with checkpoints that this run does not resume from. Raises: JobError."""
        steps = folders.complete_steps(self.folder)
        if steps and not self._resumes_here():
            raise JobError(
                f"--checkpoint-every {self.job.checkpoint_every}: {self.folder} holds another "
                f"run's checkpoint of step {steps[-1]}: resume it with --resume {CHECKPOINTS}, or "
                "move the folder away"
            )

    def _resumes_here(self) -> bool:
        """Return True if this run resumes from the folder that it saves to."""
        if not self.job.resume:
            return False
        return any(map(self.folder.samefile, folders.resume_folders(self.job.resume, self.place)))

    def _write_parts(self, where: Path, head: dict[str, Any]) -> dict[str, int]:
        """Write the model, if this rank keeps it, and the rank's own file. Return the size of
        each."""
        sizes = {}
        own = folders.rank_file(self.place.rank)
        parts = self.parts
        with parts.batch_norm.agreed(parts.net):
            if self._keeps_model:
                position = RunPosition.at(head["step"], self.job, self.schedule.steps_per_epoch)
                model = head | asdict(position) | {"job": asdict(self.job)} | parts.shared()
                with _explained(where, (MODEL,)):
                    sizes[MODEL] = write_synced(where / MODEL, partial(torch.save, model))
        with _explained(where, (own, MODEL) if self._keeps_model else (own,)):
            sizes[own] = write_synced(where / own, partial(torch.save, head | parts.own()))
        return sizes

    def _write_manifest(self, where: Path, head: dict[str, Any], files: dict[str, int]) -> None:
        """Make the checkpoint complete, and later ones, of ranks that crashed or resumed from
        later, incomplete."""
        manifest = head | {"rank": self.place.rank, "time": time.time(), "torch": torch.__version__}
        manifest |= {"job": asdict(self.job), "files": files}
        with _explained(where, (MANIFEST,)):
            write_synced(where / MANIFEST, partial(_dump, manifest))
            for other in folders.step_folders(self.folder):
                if folders.step_of(other) > head["step"]:
                    (other / MANIFEST).unlink(missing_ok=True)

    def _prune(self, kept_steps: list[int]) -> None:
        """Remove all other checkpoints from this host; the first of its ranks does it."""
        if self.place.local_rank != 0:
            return
        for where in folders.step_folders(self.folder):
            if folders.step_of(where) not in kept_steps:
                (where / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(where, ignore_errors=True)


def _dump(content: dict[str, Any], file: IO[bytes]) -> None:
    file.write(json.dumps(content, indent=2).encode() + b"\n")


@contextmanager
def _explained(where: Path, names: Iterable[str]) -> Iterator[None]:
    """Turn a failure to write these files into an error that says what to do, and remove what was
    written of them."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        for name in names:
            with suppress(OSError):
                (where / name).unlink(missing_ok=True)
        with suppress(OSError):
            where.rmdir()
        reason = describe_write_error(error)
        raise CheckpointError(
            f"cannot save the checkpoint of step {folders.step_of(where)} in {where.parent}: "
            f"{reason}; make room or access there (--checkpoint-keep 1 keeps only the "
            "newest). Earlier checkpoints are unchanged"
        ) from error
