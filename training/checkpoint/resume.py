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
            # torch takes it on the CPU only, and it was loaded to the rank's device.
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
    chosen = _choose_together(checkpoints)
    checkpoint_name = (
        f"the checkpoint of step {chosen.key.step} of {Path(job.resume).name or job.resume}"
    )
    saved_content = _read_content(_receive_model(checkpoints, chosen), parts)
    _check(job, parts, saved_content, checkpoint_name)
    _load(parts, saved_content, checkpoint_name)
    why_without_own = _why_without_own(job, checkpoints.place, chosen, saved_content)
    # States of one rank mean nothing to another number of ranks, or another method.
    own_content = None
    if not why_without_own and chosen.own:
        own_content = _read_content(chosen.own.read_bytes(), parts)
        _load(parts, own_content, checkpoint_name)
    saved_position = RunPosition(
        saved_content["step"], saved_content["epochs"], saved_content["samples"]
    )
    step = saved_position.steps(job, schedule.steps_per_epoch)
    remarks = [f"Resuming from {checkpoint_name}"]
    remarks += [f"Left out, as it is missing or damaged: {path}" for path in chosen.damaged]
    if why_without_own:
        state_names = "random numbers, sync method, local statistics"
        remarks.append(f"The ranks' own states ({state_names}) are left out: {why_without_own}")
    changed_settings = _changed_settings(job, saved_content["job"])
    if changed_settings:
        remarks.append(f"Settings that differ from the checkpoint's: {', '.join(changed_settings)}")
    if step != saved_position.step:
        remarks.append(
            f"With these settings the checkpoint's step {saved_position.step} is step {step}"
        )
    if step >= schedule.steps:
        total_steps = f"{schedule.steps} steps"
        remarks.append(f"Already complete ({total_steps}). Raise --epochs or --steps to continue")
    return Resumed(step, tuple(remarks), own_content)


def _choose_together(checkpoints: Checkpoints) -> ChosenCheckpoint:
    """Agree with the other ranks on a checkpoint. Raises: JobError, if there is none."""
    job = checkpoints.job
    place = checkpoints.place
    inventory = take_inventory(folders.resume_folders(job.resume, place), place.rank)
    writer_by_key = {chosen_key: copy.rank for chosen_key, copy in inventory.models.items()}
    rank_inventories = checkpoints.gather((writer_by_key, list(inventory.own), inventory.damaged))
    rank_models, own_keys, rank_damaged = zip(*rank_inventories, strict=True)
    all_damaged = tuple(dict.fromkeys(itertools.chain(*rank_damaged)))
    chosen_key = choose_checkpoint([*map(set, rank_models)], [*map(set, own_keys)])
    if chosen_key is None:
        raise JobError(explain_none(job.resume, place, all_damaged))
    # Of several copies the one that the lowest rank has written is used.
    _, holder = min(
        (copies[chosen_key], rank)
        for rank, copies in enumerate(rank_models)
        if chosen_key in copies
    )
    path = inventory.models[chosen_key].path if holder == place.rank else None
    without_own = [rank for rank, rank_keys in enumerate(own_keys) if chosen_key not in rank_keys]
    return ChosenCheckpoint(
        chosen_key, holder, path, inventory.own.get(chosen_key), without_own, all_damaged
    )


def _receive_model(checkpoints: Checkpoints, chosen: ChosenCheckpoint) -> bytes:
    """Return the model's file, sent by the rank that holds it."""
    own_bytes = chosen.path.read_bytes() if chosen.path else b""
    file_size = checkpoints.broadcast(chosen.holder, len(own_bytes))
    # Who has no file makes room of its size to receive into.
    model_bytes = torch.frombuffer(bytearray(own_bytes or file_size), dtype=torch.uint8)
    # In pieces, as the timeout of the group counts for each of them.
    for model_piece in torch.split(model_bytes, PIECE):
        distributed.broadcast(model_piece, src=chosen.holder, group=checkpoints.group)
    return model_bytes.numpy().tobytes()


def _read_content(data: bytes, parts: CheckpointParts) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        io.BytesIO(data), map_location=parts.device, weights_only=True
    )
    return content


def _load(parts: CheckpointParts, saved_content: dict[str, Any], checkpoint_name: str) -> None:
    """Load model and optimiser, as far as they are in `saved`. Raises: JobError."""
    is_shared = "job" in saved_content  # a rank's own file may have the model's buffers only
    try:
        if "model" in saved_content:
            parts.net.load_state_dict(saved_content["model"], strict=is_shared)
    except RuntimeError as error:
        raise JobError(f"--resume: {checkpoint_name} does not fit the model: {error}") from None
    if "optimizer" in saved_content:
        # The learning rate and other settings are this job's.
        param_groups = parts.optimizer.state_dict()["param_groups"]
        parts.optimizer.load_state_dict(
            {"state": saved_content["optimizer"], "param_groups": param_groups}
        )


def _check(
    job: Job, parts: CheckpointParts, saved_content: dict[str, Any], checkpoint_name: str
) -> None:
    """Refuse a checkpoint of another model or other data. Raises: JobError."""
    saved_job = saved_content["job"]
    # An untracked BatchNorm has no statistics, neither to load nor to be loaded into.
    was_untracked = saved_job["batch_norm"] == "untracked"
    fits = {
        "model": job.model == saved_job["model"],
        # The same images may lie elsewhere.
        "dataset": form_of("datasets", job.dataset) == form_of("datasets", saved_job["dataset"]),
        "batch_norm": was_untracked == (job.batch_norm == "untracked")
        or not _has_statistics(parts.net),
    }
    for setting, is_same in fits.items():
        if not is_same:
            own_setting = _format_setting(setting, getattr(job, setting))
            saved_setting = _format_setting(setting, saved_job[setting])
            raise JobError(
                f"{own_setting}: {checkpoint_name} is of {saved_setting}; give that, or start "
                "without --resume"
            )
    classes = tuple(saved_content.get("classes", ()))
    if classes and parts.classes and classes != parts.classes:
        odd_names = ", ".join(sorted({*classes} ^ {*parts.classes})) or "in another order"
        raise JobError(
            f"--dataset {job.dataset}: its classes are not those of {checkpoint_name} "
            f"({odd_names}): give the same images, or start without --resume"
        )


def _has_statistics(net: Module) -> bool:
    """Return True if a model has BatchNorm layers."""
    return any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in net.modules())


def _why_without_own(
    job: Job, place: Place, chosen: ChosenCheckpoint, saved_content: dict[str, Any]
) -> str:
    """Say why the ranks' own files are left out. Return "" if they are not."""
    if chosen.key.world_size != place.world_size:
        return f"it is of {chosen.key.world_size} ranks, these are {place.world_size}"
    for name in ("sync", "sync_option", "batch_norm"):
        saved_value = saved_content["job"][name]
        present_value = getattr(job, name)
        if present_value != saved_value:
            saved_setting = _format_setting(name, saved_value)
            return f"it is of {saved_setting}, these are of {_format_setting(name, present_value)}"
    absent_ranks = ", ".join(map(str, chosen.without_own))
    return f"rank {absent_ranks} cannot find its own on its host" if absent_ranks else ""


def _changed_settings(job: Job, saved_job: dict[str, Any]) -> list[str]:
    """Return the settings that differ from those of the run that saved the checkpoint."""
    return [
        f"{_format_setting(name, getattr(job, name))} (was {_format_value(saved_job.get(name))})"
        for name in names_by_effect(*TRAINED)
        if getattr(job, name) != saved_job.get(name)
    ]


def _format_setting(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {_format_value(value)}"


def _format_value(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(value) or "none"
    return str(value)
