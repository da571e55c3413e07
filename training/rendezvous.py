"""How a rank meets the others: through the store of torchrun's agent, of rank 0, or, alone, of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
from torch import distributed

from training.events import Entered, emit
from training.place import Place

PATIENCE = timedelta(minutes=30)
"""How long a rank waits for one that still loads, perhaps downloads, its data, or evaluates; who supervises the ranks sees one
that died."""
TIMEOUT = timedelta(seconds=60)
"""How long a collective may take."""


def meet(place: Place) -> tuple[torch.device, str]:
    """Waits until all ranks are there and forms the process group: this rank's device, and the backend. Says when it has
    reached the store, where it then waits for the others.

    On GPUs with NCCL where every rank has one of its own, else on CPUs with Gloo.
    """
    store = _store(place)
    emit(Entered(place.rank, "joining"))
    kinds = [f"device/{rank}" for rank in range(place.world_size)]
    has_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= place.local_world_size
    store.set(kinds[place.rank], "cuda" if has_gpu else "cpu")
    store.wait(kinds, PATIENCE)
    on_gpu = all(store.get(kind) == b"cuda" for kind in kinds)
    if on_gpu:
        torch.cuda.set_device(place.local_rank)
    backend = "nccl" if on_gpu else "gloo"
    distributed.init_process_group(backend, store=store, rank=place.rank, world_size=place.world_size, timeout=TIMEOUT)
    return torch.device("cuda", place.local_rank) if on_gpu else torch.device("cpu"), backend


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta = TIMEOUT) -> distributed.ProcessGroup | None:
    """A process group of some ranks, or of all, as patient as the default one; None on a rank outside. Called by all ranks.

    Torch's own default would be 30 minutes, whatever the default group's.
    """
    group = distributed.new_group(ranks, timeout=timeout)
    return group if isinstance(group, distributed.ProcessGroup) else None


def _store(place: Place) -> distributed.Store:  # type: ignore[name-defined]
    if not place.master_address:
        return distributed.HashStore()  # type: ignore[attr-defined]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store, _, _ = next(iter(distributed.rendezvous("env://", timeout=PATIENCE)))  # type: ignore[attr-defined]
        return store
    return distributed.TCPStore(  # type: ignore[attr-defined]
        place.master_address,
        place.master_port,
        place.world_size,
        is_master=place.rank == 0,
        timeout=PATIENCE,
        wait_for_workers=False,
        master_listen_fd=place.listen_fd if place.listen_fd >= 0 else None,
    )
