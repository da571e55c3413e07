"""How a rank computes a step: the layout and type of its tensors, and compiled code. It knows no
sync method."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sysconfig
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from training.job import Job, JobError

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
"""Parameters of `mallopt`, from glibc's <malloc.h>."""


class Compute:
    """The computation of a job on a device. Raises: JobError, where the model cannot be compiled
    here."""

    def __init__(self, job: Job, device: torch.device) -> None:
        self._job = job
        self._device = device
        if job.compile:
            check_compiler(device.type)

    def lay_out(self, net: Module) -> Module:
        """Return the model on the device, with the channels of its weights last. The layout of the
        activations follows. Convolution kernels want this layout; otherwise they reorder weights
        and activations at each call."""
        return net.to(device=self._device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def optimizer(self, net: Module) -> Optimizer:
        """Return the job's optimiser: fused SGD, which reads and writes each parameter once per
        step.

        The momentum buffers start as zeros, which gives the same result: torch's fused SGD fails
        where a parameter gets its first gradient in a later step than another.
        """
        job = self._job
        optimizer = torch.optim.SGD(
            net.parameters(), job.lr, job.momentum, weight_decay=job.weight_decay, fused=True
        )
        if job.momentum:
            for parameter in filter(lambda p: p.requires_grad, net.parameters()):
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimizer

    def compiled(self, model: Module) -> Module:
        """Return the model to call, compiled where the job says so: at its first call, and again
        for a batch of another size."""
        return torch.compile(model) if self._job.compile else model  # type: ignore[return-value]

    def logits(self, model: Module, pixels: Tensor) -> Tensor:
        """Return the model's (n, classes) logits for (n, C, H, W) float32 pixels.

        With bf16, convolutions and linear layers compute with a copy of the weights. Weights and
        logits stay in float32, as the loss needs the digits. Raises: JobError, if a BatchNorm
        gets a single image.
        """
        is_narrow = self._job.precision == "bf16"
        try:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=is_narrow):
                logits: Tensor = model(pixels)
        except (ValueError, RuntimeError) as error:  # a compiled model raises RuntimeError
            if "more than 1 value per channel" not in str(error):
                raise
            raise JobError(
                f"--batch-size {self._job.batch_size}: this rank's share of a batch is one image, "
                "which gives a BatchNorm one value per channel: use at least two images per rank, "
                "in an epoch's last batch too, or --batch-norm sync"
            ) from error
        return logits.float() if is_narrow else logits


def check_compiler(device: str) -> None:
    """Check that this host has what torch.compile needs for a device: a C++ compiler for a CPU, a C
    compiler for a GPU, and Python's headers. Raises: JobError."""
    variable, usual_compilers = ("CXX", "g++ clang++") if device == "cpu" else ("CC", "gcc clang")
    compilers = os.environ.get(variable, usual_compilers)
    header = Path(sysconfig.get_path("include"), "Python.h")
    missing = "" if header.exists() else str(header)
    if not any(map(shutil.which, compilers.split())):
        missing = f"compiler {compilers} (see {variable})"
    if missing:
        raise JobError(
            f"--compile: no {missing} on {platform.node()}: install it (apt install g++ "
            "python3-dev), or leave --compile out"
        )


def keep_freed_memory() -> bool:
    """Keep the memory that a step frees for the next one. Return False if the C library cannot.

    glibc maps large blocks and returns them to the kernel when they are freed, so every step asks
    for its activations and gradients again. For VGG-11 on 64 images these are 8,000 to 21,000
    pages, which the kernel has to clear: a sixth of the step's CPU time. On the heap they cost
    nothing, but the process never shrinks.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, -1))
