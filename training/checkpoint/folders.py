"""Where checkpoints lie on a host:

    <the run's folder on the host>/checkpoints/step-000200/
        model.pt        rank 0: the settled model, the optimiser's state, the job, its progress
        rankN.pt        each rank: random numbers, the sync method's state, its part of the model
        manifest.json   rank 0: all ranks' files are complete

Without a manifest a checkpoint is incomplete. Without an agent, as under torchrun, the folder is
`checkpoints` in the ranks' working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from training.agent.layout import CHECKPOINTS, MANIFEST, STEP
from training.place import Place

MODEL = "model.pt"


def rank_file(rank: int) -> str:
    """Return the name of a rank's own file."""
    return f"rank{rank}.pt"


def step_folder(folder: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return folder / f"{STEP}{step:06}"


def step_of(step_path: Path) -> int:
    """Return the step of a checkpoint's folder."""
    return int(step_path.name[len(STEP) :])


def step_folders(folder: Path) -> list[Path]:
    """Return the folders of the checkpoints in `folder`, complete or not, in the order of their
    steps."""
    # A folder that a person has renamed, as to step-200-good, is none of ours.
    numbered_paths = (
        path for path in folder.glob(f"{STEP}*") if path.name[len(STEP) :].isdecimal()
    )
    return sorted(numbered_paths, key=step_of)


def complete_steps(folder: Path) -> list[int]:
    """Return the steps whose checkpoints in `folder` are complete, in order."""
    return [
        step_of(step_path) for step_path in step_folders(folder) if (step_path / MANIFEST).is_file()
    ]


def resume_folders(resume: str, place: Place) -> Iterator[Path]:
    """Yield the folders of checkpoints that `--resume` may mean on this host. A host may have had
    several places in a run, each with a folder of its own."""
    resume_path = resume_root(resume, place)
    if not os.path.isdir(resume_path):  # also where this user may not look
        return
    for folder in (
        *sorted(resume_path.glob(f"*/{CHECKPOINTS}")),
        resume_path / CHECKPOINTS,
        resume_path,
    ):
        if os.path.isdir(folder):
            yield folder


def resume_root(resume: str, place: Place) -> Path:
    """Return the folder that `--resume` names: a path as it is, a name as a run beside this one."""
    if place.folder and "/" not in resume:
        return Path(place.folder).parent.parent / resume
    return Path(os.path.abspath(os.path.expanduser(resume)))
