"""Going on from a checkpoint: finding the newest that counts among the files of all hosts, and
loading it on every rank.

It need not be of as many ranks, nor of the same sync method, nor must rank 0 be where it was:
whichever rank finds the model gives it to all; of several copies rank 0's is taken, or the next
one's. Only what each rank had kept of its own is then left out, and that is said.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed, nn

from training.agent.layout import CHECKPOINTS, MANIFEST
from training.checkpoint.save import (
    MODEL,
    Checkpoints,
    Parts,
    Position,
    root_of,
    search,
    steps,
)
from training.job import INCIDENTAL, Job, JobError
from training.place import Place
from training.registry import form_of
from training.sync import SyncMethod
from training.wire.jsonl import load

PIECE = 1 << 24
"""Bytes of a model that are sent at a time."""
LONGEST_MANIFEST = 1 << 20
"""Bytes of a manifest that are read; it has some hundred."""


class Key(NamedTuple):
    """What a checkpoint is known by, whichever of its files says it: newer ones are greater."""

    step: int
    token: str
    world_size: int


class Copy(NamedTuple):
    """The model of a complete checkpoint, and which rank wrote it."""

    rank: int
    path: Path


@dataclass(frozen=True)
class Inventory:
    """What a rank finds on its host: the models of complete checkpoints, of each the least rank's,
    its own files of any, and the models that are not what was saved."""

    models: dict[Key, Copy]
    own: dict[Key, Path]
    damaged: list[Path]


@dataclass(frozen=True)
class Resumed:
    """A rank that goes on from `step`; `remarks` are for a reader of its figures. `own` is what
    only this rank had kept."""

    step: int
    remarks: tuple[str, ...]
    own: dict[str, Any] | None

    def finish(self, method: SyncMethod) -> None:
        """What comes last, once the method is prepared."""
        if self.own:
            method.load(self.own["method"])
            torch.set_rng_state(self.own["random"].cpu())
            if "random_gpu" in self.own:
                torch.cuda.set_rng_state(self.own["random_gpu"].cpu())


def resume(checkpoints: Checkpoints) -> Resumed:
    """Loads model and optimiser of the newest checkpoint of `--resume` into all ranks. Called by
    all at once.

    Raises: JobError, where there is none, or it is of another model or data set.
    """
    job, place, parts = checkpoints.job, checkpoints.place, checkpoints.parts
    places = list(search(job.resume, place))
    found = look(places, place.rank)
    all_found = checkpoints.gathered(
        ({key: copy.rank for key, copy in found.models.items()}, list(found.own), found.damaged)
    )
    key = choose([set(models) for models, *_ in all_found], [set(own) for _, own, _ in all_found])
    damaged = {path: None for *_, of_rank in all_found for path in of_rank}
    if key is None:
        raise JobError(_nothing(job.resume, place, places, damaged))
    writers = {rank: models[key] for rank, (models, *_) in enumerate(all_found) if key in models}
    holder = min(writers, key=writers.__getitem__)
    saved = _read(
        received(checkpoints, holder, found.models[key].path if holder == place.rank else None),
        parts,
    )
    where = f"the checkpoint of step {key.step} of {Path(job.resume).name or job.resume}"
    _check(job, parts, saved, where)
    _load(parts, saved, where)
    missing = _why_not_own(job, place, key, saved["job"], [key in own for _, own, _ in all_found])
    own = None if missing else _read(found.own[key].read_bytes(), parts)
    if own:
        _load(parts, own, where)
    position = Position(saved["step"], saved["epochs"], saved["samples"])
    step = position.steps(job, checkpoints.steps_per_epoch)
    if missing and _lost_momentum(saved):
        missing += "; momentum begins anew, as the rank that had it is left out too"
    return Resumed(
        step,
        tuple(_remarks(checkpoints, saved["job"], position, step, where, missing, damaged)),
        own,
    )


# Finding ------------------------------------------------------------------------------------------


def look(folders: Iterable[Path], rank: int) -> Inventory:
    """What there is in these folders for a rank."""
    models: dict[Key, Copy] = {}
    own, damaged = {}, []
    for where in (where for folder in folders for where in steps(folder)):
        if complete := _manifest(where / MANIFEST):
            of, writer, size = complete
            copy = Copy(writer, where / MODEL)
            if (
                copy.path.is_file()
                and copy.path.stat().st_size == size
                and _file_key(copy.path) == of
            ):
                models[of] = min(copy, models.get(of, copy))
            else:
                damaged.append(copy.path)
        if key := _file_key(where / f"rank{rank}.pt"):
            own[key] = where / f"rank{rank}.pt"
    return Inventory(models, own, damaged)


def choose(models: Sequence[set[Key]], own: Sequence[set[Key]]) -> Key | None:
    """The newest checkpoint of which some rank finds the model; but of those of as many ranks as
    these, rather the newest of which all find their own files. `models` and `own` are each rank's.
    None where there is none."""
    candidates = sorted(set().union(*models), reverse=True)
    alike = itertools.takewhile(lambda key: key.world_size == len(own), candidates)
    whole = (key for key in alike if all(key in of_rank for of_rank in own))
    return next(whole, next(iter(candidates), None))


def _manifest(path: Path) -> tuple[Key, int, int] | None:
    """The checkpoint that it makes complete, the rank that wrote it, and the bytes of its model."""
    try:
        with path.open("rb") as file:
            head = load(file.read(LONGEST_MANIFEST)) or {}
        return _key(head), int(head.get("rank", 0)), int(head["files"][MODEL])
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None


def _file_key(path: Path) -> Key | None:
    """None also where a file is damaged."""
    try:
        return _key(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        RuntimeError,
        EOFError,
        pickle.UnpicklingError,
    ):
        return None


def _key(head: Any) -> Key:
    return Key(int(head["step"]), str(head["token"]), int(head["world_size"]))


def _nothing(resume: str, place: Place, folders: list[Path], damaged: Iterable[Path]) -> str:
    root = root_of(resume, place)
    if paths := ", ".join(map(str, damaged)):
        why = f"what it saved is missing or not what was saved: {paths}"
        return f"--resume {resume}: {why}: bring it back, or start without --resume"
    begun = [where.name for folder in folders for where in steps(folder)]
    if begun:
        why = f"none of its checkpoints in {root} was completed ({', '.join(begun)})"
        return f"--resume {resume}: {why}: start without --resume"
    if root in steps(root.parent):
        return (
            f"--resume {resume}: this is one checkpoint: write the folder that it lies in, "
            f"{root.parent}"
        )
    try:
        os.stat(root)
        why = "there is no checkpoint in"
    except (FileNotFoundError, NotADirectoryError):
        why = "there is no folder"
    except OSError as error:  # it lies where this user may not look
        why = f"{error.strerror}:"
    advice = (
        "use the hosts it ran on, or resume a run that was started with --checkpoint-every, or "
        "give a path"
    )
    return f"--resume {resume}: {why} {root}{_known(root, place)}; {advice}"


def _known(root: Path, place: Place) -> str:
    """Which runs there are beside the one that was looked for by its name."""
    if not place.folder or root.parent != Path(place.folder).parent.parent:
        return ""
    there = sorted({path.parts[-3] for path in root.parent.glob(f"*/*/{CHECKPOINTS}")})
    return (
        f" (runs with checkpoints on this host: {', '.join(there)})"
        if there
        else " (no run on this host has saved one)"
    )


# Loading ------------------------------------------------------------------------------------------


def received(checkpoints: Checkpoints, holder: int, path: Path | None) -> bytes:
    """The file that rank `holder` has at `path`, on all ranks."""
    own = path.read_bytes() if path and checkpoints.place.rank == holder else b""
    size = checkpoints.said_by(holder, len(own))
    data = torch.frombuffer(bytearray(own or size), dtype=torch.uint8)
    for piece in torch.split(data, PIECE):
        distributed.broadcast(piece, src=holder, group=checkpoints.group)
    return data.numpy().tobytes()


def _read(data: bytes, parts: Parts) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(
        io.BytesIO(data), map_location=parts.device, weights_only=True
    )
    return content


def _load(parts: Parts, saved: dict[str, Any], where: str) -> None:
    """Puts model and optimiser, as far as they are in `saved`, where they belong."""
    try:
        if "model" in saved:
            parts.net.load_state_dict(
                saved["model"], strict="job" in saved
            )  # a rank's own may be the buffers only
    except RuntimeError as error:
        raise JobError(f"--resume: {where} does not fit the model: {error}") from None
    if "optimizer" in saved:  # learning rate and the like are this job's
        groups = parts.optimizer.state_dict()["param_groups"]
        parts.optimizer.load_state_dict({"state": saved["optimizer"], "param_groups": groups})


def _check(job: Job, parts: Parts, saved: dict[str, Any], where: str) -> None:
    """Raises: JobError, where the checkpoint is of something else."""
    of, classes = saved["job"], tuple(saved.get("classes", ()))
    has_statistics = any(
        isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in parts.net.modules()
    )
    fits = {
        "model": job.model == of["model"],
        # the same images may lie elsewhere
        "dataset": form_of("datasets", job.dataset) == form_of("datasets", of["dataset"]),
        "batch_norm": (job.batch_norm == "untracked") == (of["batch_norm"] == "untracked")
        or not has_statistics,
    }
    for name, fit in fits.items():
        if not fit:
            raise JobError(
                f"{_setting(name, getattr(job, name))}: {where} is of {_setting(name, of[name])}; "
                "give that, or start anew without --resume"
            )
    if classes and parts.classes and classes != parts.classes:
        odd = ", ".join(sorted({*classes} ^ {*parts.classes})) or "in another order"
        raise JobError(
            f"--dataset {job.dataset}: its classes are not those of {where} ({odd}): give the "
            "same images, or start anew "
            "without --resume"
        )


def _why_not_own(job: Job, place: Place, key: Key, saved: dict[str, Any], found: list[bool]) -> str:
    """Why the ranks' own files are left out, "" where they are not."""
    if key.world_size != place.world_size:
        return f"it is of {key.world_size} ranks, these are {place.world_size}"
    for name in ("sync", "sync_option", "batch_norm"):
        if getattr(job, name) != saved[name]:
            return (
                f"it is of {_setting(name, saved[name])}, these are of "
                f"{_setting(name, getattr(job, name))}"
            )
    absent = [str(rank) for rank, there in enumerate(found) if not there]
    return f"rank {', '.join(absent)} cannot find its own on its host" if absent else ""


def _lost_momentum(saved: dict[str, Any]) -> bool:
    """Whether momentum was another rank's than the one that saved this: a parameter server has it
    alone."""
    buffers = (buffer for state in saved["optimizer"].values() for buffer in state.values())
    return saved["job"]["momentum"] > 0 and not any(bool(buffer.any()) for buffer in buffers)


def _remarks(
    checkpoints: Checkpoints,
    saved: dict[str, Any],
    position: Position,
    step: int,
    where: str,
    missing: str,
    damaged: Iterable[Path],
) -> Iterator[str]:
    job = checkpoints.job
    yield f"Going on from {where}"
    for path in damaged:
        yield f"Left out, as it is missing or not what was saved: {path}"
    if missing:
        yield (
            "Its ranks' own states (random numbers, sync method, local statistics) are left out: "
            f"{missing}"
        )
    changed = [
        f"{_setting(name, value)} (was {_said(saved.get(name))})"
        for name, value in asdict(job).items()
        if name not in INCIDENTAL and value != saved.get(name)
    ]
    if changed:
        yield f"Other settings than the checkpoint's: {', '.join(changed)}"
    if step != position.step:
        again = position.samples % (job.batch_size * job.accumulate) if position.samples else 0
        more = f", and takes {again} of its samples again" if again else ""
        yield f"With these settings the checkpoint's step {position.step} is step {step}{more}"
    if step >= (total := job.steps or (job.epochs or 1) * checkpoints.steps_per_epoch):
        yield f"Already complete ({total} steps). Raise --epochs or --steps to continue"


def _setting(name: str, value: Any) -> str:
    return f"--{name.replace('_', '-')} {_said(value)}"


def _said(value: Any) -> str:
    return (" ".join(value) or "none") if isinstance(value, (tuple, list)) else str(value)
