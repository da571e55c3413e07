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
        keeps_copy = place.copies and bool(place.folder) and place.local_rank == 0
        self._keeps_model = place.rank == 0 or keeps_copy
        # A group of its own: the patience of the default one is meant for networks, not for disks.
        disk_group = distributed.new_group(backend="gloo", timeout=PATIENCE)
        assert isinstance(disk_group, ProcessGroup)
        self.group = disk_group
        # Tells these files from those of another run that has saved the same step.
        self._token = self.broadcast(0, secrets.token_hex(8))
        if job.checkpoint_every and not place.folder:
            self._check_folder()

    def save(self, step: int) -> int:
        """Save the model on which the ranks have settled. Return the bytes that this rank wrote.
        Raises: CheckpointError."""
        step_path = folders.step_folder(self.folder, step)
        file_head = {"step": step, "token": self._token, "world_size": self.place.world_size}
        with _explain_failure(step_path, ()):
            make_private_folders(step_path)
            # A new folder survives a power cut only once those above it are written, too.
            for parent_folder in (self.folder, self.folder.parent):
                sync_folder(parent_folder)
        own_sizes = self._write_parts(step_path, file_head)
        # A barrier as well: the manifest comes after the files of all ranks.
        all_sizes = self.gather(own_sizes)
        if self._keeps_model:
            size_by_file = {
                name: size
                for rank_sizes in (*all_sizes, own_sizes)
                for name, size in rank_sizes.items()
            }
            self._write_manifest(step_path, file_head, size_by_file)
        # Rank 0 decides for all: another host may have lost some checkpoints.
        kept_steps = folders.complete_steps(self.folder)[-self.job.checkpoint_keep :]
        self._remove_older(self.broadcast(0, kept_steps))
        return sum(own_sizes.values())

    def gather(self, own_value: Any) -> list[Any]:
        """Return what each rank gives, in the order of the ranks."""
        all_values: list[Any] = [None] * self.place.world_size
        distributed.all_gather_object(all_values, own_value, group=self.group)
        return all_values

    def broadcast(self, source: int, value: Any) -> Any:
        """Return the value that the source rank gives."""
        value_box = [value]
        distributed.broadcast_object_list(value_box, src=source, group=self.group)
        return value_box[0]

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

    def _write_parts(self, step_path: Path, file_head: dict[str, Any]) -> dict[str, int]:
        """Write the model, if this rank keeps it, and the rank's own file. Return the size of
        each."""
        size_by_name = {}
        own_name = folders.rank_file(self.place.rank)
        parts = self.parts
        with parts.batch_norm.agreed(parts.net):
            if self._keeps_model:
                position = RunPosition.at(
                    file_head["step"], self.job, self.schedule.steps_per_epoch
                )
                model_content = (
                    file_head | asdict(position) | {"job": asdict(self.job)} | parts.shared()
                )
                with _explain_failure(step_path, (MODEL,)):
                    size_by_name[MODEL] = write_synced(
                        step_path / MODEL, partial(torch.save, model_content)
                    )
        with _explain_failure(step_path, (own_name, MODEL) if self._keeps_model else (own_name,)):
            size_by_name[own_name] = write_synced(
                step_path / own_name, partial(torch.save, file_head | parts.own())
            )
        return size_by_name

    def _write_manifest(
        self, step_path: Path, file_head: dict[str, Any], size_by_file: dict[str, int]
    ) -> None:
        """Make the checkpoint complete, and later ones, of ranks that crashed or resumed from
        later, incomplete."""
        manifest_content = file_head | {
            "rank": self.place.rank,
            "time": time.time(),
            "torch": torch.__version__,
        }
        manifest_content |= {"job": asdict(self.job), "files": size_by_file}
        with _explain_failure(step_path, (MANIFEST,)):
            write_synced(step_path / MANIFEST, partial(_write_json, manifest_content))
            for other_path in folders.step_folders(self.folder):
                if folders.step_of(other_path) > file_head["step"]:
                    (other_path / MANIFEST).unlink(missing_ok=True)

    def _remove_older(self, kept_steps: list[int]) -> None:
        """Remove all other checkpoints from this host; the first of its ranks does it."""
        if self.place.local_rank != 0:
            return
        for step_path in folders.step_folders(self.folder):
            if folders.step_of(step_path) not in kept_steps:
                # The manifest first, as half a removal must not look complete.
                (step_path / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(step_path, ignore_errors=True)


def _write_json(content: dict[str, Any], file: IO[bytes]) -> None:
    file.write(json.dumps(content, indent=2).encode() + b"\n")


@contextmanager
def _explain_failure(step_path: Path, file_names: Iterable[str]) -> Iterator[None]:
    """Turn a failure to write these files into an error that says what to do, and remove what was
    written of them."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        for name in file_names:
            with suppress(OSError):
                (step_path / name).unlink(missing_ok=True)
        with suppress(OSError):
            # Other ranks may have files in it: then this fails, as it should.
            step_path.rmdir()
        reason = describe_write_error(error)
        step = folders.step_of(step_path)
        raise CheckpointError(
            f"cannot save the checkpoint of step {step} in {step_path.parent}: "
            f"{reason}; make room or access there (--checkpoint-keep 1 keeps only the "
            "newest). Earlier checkpoints are unchanged"
        ) from error
