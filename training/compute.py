"""How a rank computes a step: the layout of its tensors, their type, compiled code or not. It knows
no sync method."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from pathlib import Path

import torch
from torch import nn

from training.job import Job, JobError


class Compute:
    """What a job says about it, for a device. Raises: JobError, where the model shall be compiled
    and cannot be here."""

    def __init__(self, job: Job, device: torch.device) -> None:
        self._job, self._device = job, device
        if job.compile:
            check_compiler(device.type)

    def lay_out(self, net: nn.Module) -> nn.Module:
        """The model on the device, its convolutions' weights with the channels last: so the kernels
        want both them and the activations, whose layout follows; else they reorder them at each
        call."""
        return net.to(device=self._device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def optimizer(self, net: nn.Module) -> torch.optim.Optimizer:
        """The job's optimiser: SGD that reads and writes each parameter once a step.

        Every momentum begins as zeros, which comes to the same: torch's fused SGD fails where a
        parameter has its first gradient in a later step than another.
        """
        job = self._job
        optimizer = torch.optim.SGD(
            net.parameters(), job.lr, job.momentum, weight_decay=job.weight_decay, fused=True
        )
        if job.momentum:
            for parameter in filter(lambda p: p.requires_grad, net.parameters()):
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimizer

    def compiled(self, model: nn.Module) -> nn.Module:
        """The model as the job wants it called. It is compiled at its first call, and again for a
        batch of another size."""
        return torch.compile(model) if self._job.compile else model  # type: ignore[return-value]

    def logits(self, model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
        """The model's (n, classes) logits for (n, C, H, W) float32 pixels.

        With bf16, convolutions and linear layers compute in it from a copy of the weights, which
        stay in float32, as the logits are: a loss wants its digits. Raises: JobError, where one
        image is too few for a BatchNorm.
        """
        narrow = self._job.precision == "bf16"
        try:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=narrow):
                logits: torch.Tensor = model(pixels)
        except (ValueError, RuntimeError) as error:  # a compiled model's is the latter
            if "more than 1 value per channel" not in str(error):
                raise
            raise JobError(
                f"--batch-size {self._job.batch_size}: this rank's share of a batch is one image, "
                "of which a BatchNorm of the "
                "model gets one value per channel: give at least two images per rank, in an "
                "epoch's last batch too, or "
                "--batch-norm sync"
            ) from error
        return logits.float() if narrow else logits


def check_compiler(device: str) -> None:
    """Raises: JobError, where this host has not what torch.compile needs for a device: C++ for a
    CPU, C for a GPU."""
    on_cpu = device == "cpu"
    language, variable = ("C++", "CXX") if on_cpu else ("C", "CC")
    usual = (
        "clang++"
        if sys.platform == "darwin"
        else "g++"
        if on_cpu
        else "gcc"
        if shutil.which("gcc")
        else "clang"
    )
    compiler = os.environ.get(variable, usual)
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not shutil.which(compiler):
        raise JobError(
            f"--compile: no {language} compiler {compiler} on {platform.node()}: install it (apt "
            "install g++), "
            f"name another by {variable}, or leave --compile out"
        )
    if not header.exists():
        raise JobError(
            f"--compile: no {header} on {platform.node()}: install Python's headers (apt install "
            "python3-dev), "
            "or leave --compile out"
        )
