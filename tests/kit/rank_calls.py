"""Ranks that are forked from one process, talk over Gloo and call functions of a test module, one
after another."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed import FileStore  # type: ignore[attr-defined]

from tests.kit.forked_ranks import Forker
from training.agent.host.processes import die_with
from training.place import Place


def call(
    forker: Forker, folder: Path, module: str, names: Mapping[int, Sequence[str]]
) -> dict[tuple[int, str], list[Any]]:
    """What each rank's call of each named function returned: (world, name) → one result per rank;
    None of a rank that ended itself before it had called all.

    A function takes the rank's `Place`. What it returns has to be `torch.load`able with weights
    only.
    """
    worlds = [f"{world}:{','.join(called)}" for world, called in names.items()]
    pid = forker.ask(do="call", folder=str(folder), module=module, worlds=worlds)
    assert forker.ask(do="wait", pids=[pid]) == [0], "a rank failed; its stderr says why"
    found = {}
    for world, called in names.items():
        files = [folder / f"{world}.{rank}" for rank in range(world)]
        ranks = [torch.load(file) if file.exists() else {} for file in files]
        found |= {(world, name): [rank.get(name) for rank in ranks] for name in called}
    return found


def rank_main(folder: Path, module: str, names: Sequence[str], rank: int, world: int) -> None:
    """One rank's calls."""
    torch.set_num_threads(1)
    store = FileStore(str(folder / f"store{world}"), world)
    distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=30)
    )
    called = importlib.import_module(module)
    torch.save(
        {name: getattr(called, name)(Place(rank, rank, world, world)) for name in names},
        folder / f"{world}.{rank}",
    )


def fork(folder: Path, module: str, names: Sequence[str], rank: int, world: int) -> int:
    """Starts a rank: its pid."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    die_with(parent)
    code = 1
    try:
        rank_main(folder, module, names, rank, world)
        code = 0
    except BaseException:  # noqa: BLE001 - printed, as the interpreter would
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


def main(folder: Path, module: str, worlds: Sequence[str]) -> int:
    """All worlds at the same time: 0 where every rank did well."""
    importlib.import_module(module)
    gc.collect()
    gc.freeze()  # so that ranks need not look through all of torch for garbage
    pids = []
    for text in worlds:
        world, names = text.split(":")
        pids += [
            fork(folder, module, names.split(","), rank, int(world)) for rank in range(int(world))
        ]
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
