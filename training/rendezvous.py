"""How a rank meets the others: through the store of torchrun's agent, of rank 0, or, alone, of its
own."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from training.place import Place
from training.wire.enums import Phase
from training.wire.events import Entered, emit

PATIENCE = timedelta(minutes=30)
"""How long a rank waits for one that still loads, perhaps downloads, its data, or evaluates; who
supervises the ranks sees one that died."""
TIMEOUT = timedelta(seconds=60)
"""How long a collective may take."""


def meet(place: Place) -> tuple[torch.device, str, str]:
    """Waits until all ranks are there and forms the process group: this rank's device, the backend,
    and why GPUs that there are cannot be used, "" where that needs no word. Says when it has
    reached the store, where it then waits for the others.

    On GPUs with NCCL where every rank has one of its own, else on CPUs with Gloo.
    """
    store = _store(place)
    emit(Entered(place.rank, Phase.JOINING))
    keys = [f"device/{rank}" for rank in range(place.world_size)]
    store.set(keys[place.rank], " ".join(gpu(place)))
    store.wait(keys, PATIENCE)
    gpus, reasons = zip(*(store.get(key).decode().split(" ", 1) for key in keys), strict=True)
    why = lack(gpus, reasons)
    on_gpu = all(gpus) and not why
    if on_gpu:
        torch.cuda.set_device(place.local_rank)
    backend = "nccl" if on_gpu else "gloo"
    distributed.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.world_size, timeout=TIMEOUT
    )
    return torch.device("cuda", place.local_rank) if on_gpu else torch.device("cpu"), backend, why


def gpu(place: Place) -> tuple[str, str]:
    """What the GPU that is this rank's is known by; or "", and why it cannot be used, "" where
    there is none."""
    if not torch.cuda.is_available():
        if (
            torch.version.cuda
            and "CUDA_VISIBLE_DEVICES" not in os.environ
            and os.path.exists("/dev/nvidiactl")
        ):
            return (
                "",
                f"torch {torch.__version__} cannot use its GPU: does nvidia-smi work there, is "
                "the driver too old?",
            )
        return "", ""
    if (count := torch.cuda.device_count()) < place.local_world_size:
        return (
            "",
            f"{count} GPU{'s are' if count > 1 else ' is'} to be seen for its host's "
            f"{place.local_world_size} ranks",
        )
    figures = torch.cuda.get_device_properties(place.local_rank)
    built_for = [
        int(name[3:])
        for name in torch.cuda.get_arch_list()
        if name.startswith("sm_") and name[3:].isdecimal()
    ]
    if built_for and figures.major * 10 + figures.minor < min(built_for):
        return "", f"torch {torch.__version__} was not built for its GPU, a {figures.name}"
    if torch.version.cuda:
        return str(figures.uuid), ""
    boot_id = Path(
        "/proc/sys/kernel/random/boot_id"
    )  # with ROCm not every GPU has a number of its own
    machine = boot_id.read_text().strip() if boot_id.exists() else platform.node()
    return (
        f"{machine}/{place.local_rank}",
        "",
    )


def lack(gpus: Sequence[str], reasons: Sequence[str]) -> str:
    """Why the ranks train on CPUs though some have GPUs, from what each says of its own; "" where
    they do not, or none has."""
    for rank, (own, reason) in enumerate(zip(gpus, reasons, strict=True)):
        if reason:
            return f"All ranks train on CPUs: of rank {rank}, {reason}"
        if not own and any(gpus):
            return f"All ranks train on CPUs: rank {rank} has no GPU"
        if own and own in gpus[:rank]:
            return f"All ranks train on CPUs: ranks {gpus.index(own)} and {rank} would share a GPU"
    return ""


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta = TIMEOUT
) -> distributed.ProcessGroup | None:
    """A process group of some ranks, or of all, as patient as the default one; None on a rank
    outside. Called by all ranks.

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
