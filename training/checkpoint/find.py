"""Finding the checkpoint to resume from among the files of all hosts."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from training.agent.layout import MANIFEST
from training.checkpoint import folders
from training.checkpoint.folders import MODEL
from training.place import Place
from training.wire.jsonl import load

LONGEST_MANIFEST = 1 << 20
"""Bytes of a manifest that are read; it has some hundred."""
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    EOFError,
    pickle.UnpicklingError,
)
"""What `torch.load` raises for a damaged file."""


class CheckpointKey(NamedTuple):
    """What identifies a checkpoint; all its files carry it. Newer checkpoints are greater."""

    step: int
    token: str
    world_size: int


class ModelCopy(NamedTuple):
    """The model of a complete checkpoint, and which rank wrote it."""

    rank: int
    path: Path


class CheckpointManifest(NamedTuple):
    """The checkpoint that a manifest makes complete, the rank that wrote it, and the size in bytes
    of its model."""

    key: CheckpointKey
    rank: int
    model_size: int


@dataclass(frozen=True)
class CheckpointInventory:
    """What a rank finds on its host: the model of each complete checkpoint (of several copies the
    lowest rank's), its own files of any checkpoint, and the models that are damaged."""

    models: dict[CheckpointKey, ModelCopy]
    own: dict[CheckpointKey, Path]
    damaged: list[Path]


def take_inventory(places: Iterable[Path], rank: int) -> CheckpointInventory:
    """Return what a rank finds in these folders."""
    models: dict[CheckpointKey, ModelCopy] = {}
    own_files: dict[CheckpointKey, Path] = {}
    damaged_models: list[Path] = []
    for step_folder in (
        step_folder for folder in places for step_folder in folders.step_folders(folder)
    ):
        manifest = read_manifest(step_folder / MANIFEST)
        if manifest:
            checkpoint_key = manifest.key
            model_copy = ModelCopy(manifest.rank, step_folder / MODEL)
            if _is_complete_model(model_copy.path, manifest):
                models[checkpoint_key] = min(model_copy, models.get(checkpoint_key, model_copy))
            else:
                damaged_models.append(model_copy.path)
        own_file = step_folder / folders.rank_file(rank)
        own_key = _file_key(own_file)
        if own_key:
            own_files[own_key] = own_file
    return CheckpointInventory(models, own_files, damaged_models)


def choose_checkpoint(
    models: Sequence[set[CheckpointKey]], own_keys: Sequence[set[CheckpointKey]]
) -> CheckpointKey | None:
    """Return the checkpoint to resume from; None if there is none. `models` and `own` are what each
    rank finds.

    It is the newest of which some rank finds the model. Among those that were saved by as many
    ranks as these, the newest counts of which every rank finds its own file.
    """
    candidates = sorted(set().union(*models), reverse=True)
    same_size = itertools.takewhile(lambda key: key.world_size == len(own_keys), candidates)
    complete_keys = (key for key in same_size if all(key in rank_keys for rank_keys in own_keys))
    return next(complete_keys, next(iter(candidates), None))


def read_manifest(path: Path) -> CheckpointManifest | None:
    """Return a manifest; None if there is none, or it is damaged."""
    try:
        with path.open("rb") as file:
            manifest_data = load(file.read(LONGEST_MANIFEST)) or {}
        return CheckpointManifest(
            _read_key(manifest_data),
            int(manifest_data.get("rank", 0)),
            int(manifest_data["files"][MODEL]),
        )
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None


def explain_none(resume: str, place: Place, damaged: Iterable[Path]) -> str:
    """Say why there is no checkpoint to resume from, and what to do."""
    root = folders.resume_root(resume, place)
    paths = ", ".join(map(str, damaged))
    if paths:
        problem = f"the model is missing or damaged: {paths}"
        advice = "restore it, or start without --resume"
    elif root in folders.step_folders(root.parent):
        problem = "this is one checkpoint"
        advice = f"give the folder above it, {root.parent}"
    else:
        problem = f"no complete checkpoint in {root}"
        advice = (
            "use the hosts it ran on, resume a run that was started with --checkpoint-every, or "
            "give a path"
        )
    return f"--resume {resume}: {problem}: {advice}"


def _is_complete_model(model: Path, manifest: CheckpointManifest) -> bool:
    """Return True if a model is the one that was saved with the manifest."""
    if not model.is_file() or model.stat().st_size != manifest.model_size:
        return False
    return _file_key(model) == manifest.key


def _file_key(path: Path) -> CheckpointKey | None:
    """Return the checkpoint to which a file belongs; None if the file is missing or damaged."""
    try:
        # Mapped, so that only the head is read: a model may have gigabytes.
        return _read_key(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except UNREADABLE:
        return None


def _read_key(file_head: Any) -> CheckpointKey:
    return CheckpointKey(
        int(file_head["step"]), str(file_head["token"]), int(file_head["world_size"])
    )
