"""Resuming from a checkpoint: loading the newest complete one on every rank.

The number of ranks, the sync method and the hosts may be others than when it was saved: whichever
rank finds the model sends it to all; of several copies the lowest rank's is used. Then only what
each rank had saved of its own is left out, with a remark.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import Module

from training.checkpoint import folders
from training.checkpoint.find import CheckpointKey, choose_checkpoint, explain_none, take_inventory
from training.checkpoint.parts import CheckpointParts, RunPosition
from training.checkpoint.save import Checkpoints
from training.job import Job, JobError, names_by_effect
from training.place import Place
from training.registry import form_of
from training.setting import TRAINED
from training.sync import SyncMethod

PIECE = 1 << 24
"""Bytes of a model that are sent at a time."""


@dataclass(frozen=True)
class Resumed:
    """What a rank resumes from: the beginning, or a checkpoint of `step`. `remarks` are for a
    reader of the figures, `own` is what only this rank had saved."""

    step: int = 0
    remarks: tuple[str, ...] = ()
    own: dict[str, Any] | None = None

    def finish(self, method: SyncMethod) -> None:
        """Load what has to wait until the method is prepared."""
        if self.own:
            method.load(self.own["method"])
            torch.set_rng_state(self.own["random"].cpu())
            if "random_gpu" in self.own:
                torch.cuda.set_rng_state(self.own["random_gpu"].cpu())


@dataclass(frozen=True)
class ChosenCheckpoint:
    """The checkpoint that all ranks load: `holder` sends its model from its `path`, which is None
    on other ranks. `own` is this rank's file, `without_own` the ranks that lack theirs; `damaged`
    are the models, of all hosts, that cannot be used."""

    key: CheckpointKey
    holder: int
    path: Path | None
    own: Path | None
    without_own: Sequence[int]
    damaged: Sequence[Path]


def resume(checkpoints: Checkpoints) -> Resumed:
    """Load model and optimiser of the newest checkpoint of `--resume` into all ranks. Called by all
    at once.

    Raises: JobError, if there is none, or it is of another model or data set.
    """
    job = checkpoints.job
    parts = checkpoints.parts
    schedule = checkpoints.schedule
    chosen = _choose(checkpoints)
    name = f"the checkpoint of step {chosen.key.step} of {Path(job.resume).name or job.resume}"
    saved = _read(_receive(checkpoints, chosen), parts)
    _check(job, parts, saved, name)
    _load(parts, saved, name)
    reason = _why_without_own(job, checkpoints.place, chosen, saved)
    own = None
    if not reason and chosen.own:
        own = _read(chosen.own.read_bytes(), parts)
        _load(parts, own, name)
    position = RunPosition(saved["step"], saved["epochs"], saved["samples"])
    step = position.steps(job, schedule.steps_per_epoch)
    remarks = [f"Resuming from {name}"]
    remarks += [f"Left out, as it is missing or damaged: {path}" for path in chosen.damaged]
    if reason:
        states = "random numbers, sync method, local statistics"
        remarks.append(f"The ranks' own states ({states}) are left out: {reason}")
    changed = _changed_settings(job, saved["job"])
    if changed:
        remarks.append(f"Settings that differ from the checkpoint's: {', '.join(changed)}")
    if step != position.step:
        remarks.append(f"With these settings the checkpoint's step {position.step} is step {step}")
    if step >= schedule.steps:
        total = f"{schedule.steps} steps"
        remarks.append(f"Already complete ({total}). Raise --epochs or --steps to continue")
    return Resumed(step, tuple(remarks), own)


def _choose(checkpoints: Checkpoints) -> ChosenCheckpoint:
    """Agree with the other ranks on a checkpoint. Raises: JobError, if there is none."""
    job = checkpoints.job
    place = checkpoints.place
    inventory = take_inventory(folders.resume_folders(job.resume, place), place.rank)
    writers = {key: copy.rank for key, copy in inventory.models.items()}
    of_ranks = checkpoints.gather((writers, list(inventory.own), inventory.damaged))
    models, own_keys, damaged = zip(*of_ranks, strict=True)
    all_damaged = tuple(dict.fromkeys(itertools.chain(*damaged)))
    key = choose_checkpoint([*map(set, models)], [*map(set, own_keys)])
    if key is None:
        raise JobError(explain_none(job.resume, place, all_damaged))
    # Of several copies the one that the lowest rank has written is used.
    _, holder = min((copies[key], rank) for rank, copies in enumerate(models) if key in copies)
    path = inventory.models[key].path if holder == place.rank else None
    without_own = [rank for rank, keys in enumerate(own_keys) if key not in keys]
    return ChosenCheckpoint(key, holder, path, inventory.own.get(key), without_own, all_damaged)


def _receive(checkpoints: Checkpoints, chosen: ChosenCheckpoint) -> bytes:
    """Return the model's file, sent by the rank that holds it."""
    own = chosen.path.read_bytes() if chosen.path else b""
    size = checkpoints.broadcast(chosen.holder, len(own))
    data = torch.frombuffer(bytearray(own or size), dtype=torch.uint8)
    for piece in torch.split(data, PIECE):
        distributed.broadcast(piece, src=chosen.holder, group=checkpoints.group)
    return data.numpy().tobytes()


def _read(data: bytes, parts: CheckpointParts) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        io.BytesIO(data), map_location=parts.device, weights_only=True
    )
    return content


def _load(parts: CheckpointParts, saved: dict[str, Any], name: str) -> None:
    """Load model and optimiser, as far as they are in `saved`. Raises: JobError."""
    is_shared = "job" in saved  # a rank's own file may have the model's buffers only
    try:
        if "model" in saved:
            parts.net.load_state_dict(saved["model"], strict=is_shared)
    except RuntimeError as error:
        raise JobError(f"--resume: {name} does not fit the model: {error}") from None
    if "optimizer" in saved:
        # The learning rate and other settings are this job's.
        groups = parts.optimizer.state_dict()["param_groups"]
        parts.optimizer.load_state_dict({"state": saved["optimizer"], "param_groups": groups})


def _check(job: Job, parts: CheckpointParts, saved: dict[str, Any], name: str) -> None:
    """Refuse a checkpoint of another model or other data. Raises: JobError."""
    before = saved["job"]
    was_untracked = before["batch_norm"] == "untracked"
    fits = {
        "model": job.model == before["model"],
        # The same images may lie elsewhere.
        "dataset": form_of("datasets", job.dataset) == form_of("datasets", before["dataset"]),
        "batch_norm": was_untracked == (job.batch_norm == "untracked")
        or not _has_statistics(parts.net),
    }
    for setting, fit in fits.items():
        if not fit:
            wanted = _setting(setting, before[setting])
            raise JobError(
                f"{_setting(setting, getattr(job, setting))}: {name} is of {wanted}; give that, or "
                "start without --resume"
            )
    classes = tuple(saved.get("classes", ()))
    if classes and parts.classes and classes != parts.classes:
        odd = ", ".join(sorted({*classes} ^ {*parts.classes})) or "in another order"
        raise JobError(
            f"--dataset {job.dataset}: its classes are not those of {name} ({odd}): give the same "
            "images, or start without --resume"
        )


def _has_statistics(net: Module) -> bool:
    """Return True if a model has BatchNorm layers."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in net.modules())


def _why_without_own(
    job: Job, place: Place, chosen: ChosenCheckpoint, saved: dict[str, Any]
) -> str:
    """Say why the ranks' own files are left out. Return "" if they are not."""
    if chosen.key.world_size != place.world_size:
        return f"it is of {chosen.key.world_size} ranks, these are {place.world_size}"
    for name in ("sync", "sync_option", "batch_norm"):
        before = saved["job"][name]
        now = getattr(job, name)
        if now != before:
            return f"it is of {_setting(name, before)}, these are of {_setting(name, now)}"
    absent = ", ".join(map(str, chosen.without_own))
    return f"rank {absent} cannot find its own on its host" if absent else ""


def _changed_settings(job: Job, saved: dict[str, Any]) -> list[str]:
    """Return the settings that differ from those of the run that saved the checkpoint."""
    return [
        f"{_setting(name, getattr(job, name))} (was {_written(saved.get(name))})"
        for name in names_by_effect(*TRAINED)
        if getattr(job, name) != saved.get(name)
    ]


def _setting(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {_written(value)}"


def _written(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(value) or "none"
    return str(value)
