"""How a rank meets the others: through the store of torchrun's agent or of rank 0. A single rank
has a store of its own."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.distributed import ProcessGroup

from training.place import Place
from training.wire.enums import Phase
from training.wire.events import emit
from training.wire.rank_events import Entered

PEER_TIMEOUT = timedelta(minutes=30)
"""How long a rank waits for others that download their data or evaluate: long, as it is no rank's
fault, and its agent notices a rank that dies."""
TIMEOUT = timedelta(seconds=60)
"""How long a collective may take."""


def meet_ranks(place: Place) -> tuple[torch.device, str, str]:
    """Wait for all ranks and make the process group. Return this rank's device, the backend, and
    why GPUs are not used, "" if there is nothing to explain.

    The ranks use GPUs and NCCL if each has a GPU of its own, else CPUs and Gloo. Reports when the
    rank has reached the store, where it waits for the others.
    """
    rank = place.rank
    world_size = place.world_size
    store = _open_store(place)
    emit(Entered(rank, Phase.JOINING))
    device_keys = [f"device/{other}" for other in range(world_size)]
    store.set(device_keys[rank], " ".join(find_gpu(place)))
    store.wait(device_keys, PEER_TIMEOUT)
    gpu_names, gpu_reasons = zip(
        *(store.get(key).decode().split(" ", 1) for key in device_keys), strict=True
    )
    why_cpu = explain_no_gpu(gpu_names, gpu_reasons)
    device = torch.device("cpu")
    backend = "gloo"
    if all(gpu_names) and not why_cpu:
        device = torch.device("cuda", place.local_rank)
        # Before NCCL is set up, which would take GPU 0 for all ranks of a host.
        torch.cuda.set_device(device)
        backend = "nccl"
    distributed.init_process_group(
        backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT
    )
    return device, backend, why_cpu


def find_gpu(place: Place) -> tuple[str, str]:
    """Return the name of this rank's GPU, unique among all hosts; or "", and why the GPU cannot be
    used ("" if there is none)."""
    if not torch.cuda.is_available():
        return "", _explain_hidden_gpu()
    gpu_count = torch.cuda.device_count()
    if gpu_count < place.local_world_size:
        gpu_text = f"{gpu_count} GPU{'s' if gpu_count > 1 else ''}"
        return "", f"only {gpu_text} visible for the {place.local_world_size} ranks of its host"
    properties = torch.cuda.get_device_properties(place.local_rank)
    architectures = [name.removeprefix("sm_") for name in torch.cuda.get_arch_list()]
    built_for = [int(number) for number in architectures if number.isdecimal()]
    # Code for an older GPU runs on a newer one, but not the other way round.
    if built_for and properties.major * 10 + properties.minor < min(built_for):
        return "", f"torch {torch.__version__} was not built for its GPU, a {properties.name}"
    if torch.version.cuda:
        return str(properties.uuid), ""
    # With ROCm not every GPU has a unique id.
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    host_id = boot_id.read_text().strip() if boot_id.exists() else platform.node()
    return f"{host_id}/{place.local_rank}", ""


def _explain_hidden_gpu() -> str:
    """Say why torch sees no GPU. Return "" if there is none, or it is hidden on purpose."""
    if not torch.version.cuda or "CUDA_VISIBLE_DEVICES" in os.environ:
        return ""
    if not os.path.exists("/dev/nvidiactl"):
        return ""
    return (
        f"torch {torch.__version__} cannot use its GPU: check that nvidia-smi works there and that "
        "the driver is new enough"
    )


def explain_no_gpu(gpu_names: Sequence[str], reasons: Sequence[str]) -> str:
    """Say why the ranks train on CPUs although some have GPUs. Return "" if they use GPUs, or none
    has one. `gpu_names` and `reasons` are what `find_gpu` returns on each rank."""
    problem = ""
    for rank, (gpu_name, reason) in enumerate(zip(gpu_names, reasons, strict=True)):
        if reason:
            problem = f"on rank {rank}, {reason}"
        elif not gpu_name and any(gpu_names):
            problem = f"rank {rank} has no GPU"
        elif gpu_name and gpu_name in gpu_names[:rank]:
            problem = f"ranks {gpu_names.index(gpu_name)} and {rank} would share a GPU"
        if problem:
            return f"All ranks train on CPUs: {problem}"
    return ""


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta = TIMEOUT
) -> ProcessGroup | None:
    """Make a process group of some ranks, or of all, with the timeout of the default group; None on
    a rank outside. Called by all ranks.

    Without a timeout torch takes 30 minutes, not that of the default group.
    """
    # Called on all ranks, or those inside would wait for the others for ever.
    group = distributed.new_group(ranks, timeout=timeout)
    # On a rank outside torch returns a number instead of a group.
    return group if isinstance(group, ProcessGroup) else None


def _open_store(place: Place) -> distributed.Store:  # type: ignore[name-defined]
    if not place.master_address:
        return distributed.HashStore()  # type: ignore[attr-defined]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        store, _, _ = next(iter(distributed.rendezvous("env://", timeout=PEER_TIMEOUT)))  # type: ignore[attr-defined]
        return store
    return distributed.TCPStore(  # type: ignore[attr-defined]
        place.master_address,
        place.master_port,
        place.world_size,
        is_master=place.rank == 0,
        timeout=PEER_TIMEOUT,
        # The wait for the keys of all ranks does that, after this rank has reported.
        wait_for_workers=False,
        master_listen_fd=place.listen_fd if place.listen_fd >= 0 else None,
    )
