"""PyTorch's DistributedDataParallel: gradients travel in buckets during backward, as they are or
compressed.

The bare model makes the first step of a run, which is reduced here, parameter by parameter. It
shows whether any rank leaves a parameter unused. From the second step on the model is wrapped in
DDP, which searches for unused parameters only if there are any.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._dynamo  # otherwise DDP's constructor imports it, in the second step
from torch import Tensor, distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import Module, Parameter
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from training.job import JobError
from training.meter import Meter
from training.place import Place
from training.step_formulas import ring_bytes
from training.sync import SyncMethod
from training.sync.common.power_sgd import PowerSGD

OPTIONS = {
    "bucket_mb": {
        "default": 25.0,
        "help": "size in MiB at which a bucket is closed; powersgd uses one bucket",
        "above": 0,
        "requires": {"compression": ("none", "fp16", "bf16")},
    },
    "gradient_as_bucket_view": {
        "default": True,
        "help": "gradients are views of the buckets, which saves memory and a copy",
    },
    "static_graph": {
        "default": False,
        "help": "every step uses the same parameters in the same way",
    },
    "compression": {
        "default": "none",
        "help": "how gradients are compressed; with none, --precision bf16 means bf16",
        "choices": ("none", "fp16", "bf16", "powersgd"),
    },
    "rank": {
        "default": 2,
        "help": "rank of the matrices that approximate a gradient",
        "low": 1,
        "requires": {"compression": ("powersgd",)},
    },
    "start": {
        "default": 2,
        "help": "number of exact steps before powersgd compresses",
        "low": 2,
        "requires": {"compression": ("powersgd",)},
    },
}


class Method(SyncMethod):
    """DDP does not broadcast buffers here: ranks would wait for a slow one inside forward, where
    waiting cannot be told from computing. A single rank needs no DDP.
    """

    def prepare(self, model: Module, optimizer: Optimizer, place: Place, meter: Meter) -> Module:
        """Return a module that calls the bare model in the first step, then DDP."""
        self._place = place
        self._meter = meter
        self._parameters = {
            name: parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        }
        # DDP and the first step exchange a map of used parameters, with an int32 for each.
        self._map_bytes = 4 * len(self._parameters)
        self._finds_unused: bool | None = None
        options = self.options
        self._compression_name = options.compression
        if self._compression_name == "none" and self.gradient_dtype == torch.bfloat16:
            self._compression_name = "bf16"
        self._power_sgd: PowerSGD | None = None
        if self._compression_name == "powersgd":
            self._power_sgd = PowerSGD(options.rank, options.start)
        self._ddp_switch = DDPSwitch(model)
        return self._ddp_switch if place.world_size > 1 else model

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Choose the model of a micro-batch: before the last one the bare model accumulates
        gradients, as under `no_sync`."""
        wrapped = self._ddp_switch
        wrapped.last = last
        if last and self._finds_unused is not None and wrapped.ddp is None:
            # Only now: with a static graph DDP counts the micro-batches of its first step.
            with self._meter.waiting():
                wrapped.ddp = self._make_ddp(self._finds_unused)
        return nullcontext()

    def reduce(self) -> None:
        """Count what backward has sent, and its time after the last gradient as waiting. In the
        first step, reduce the gradients here.

        Raises: JobError, if a parameter is unused although the first step used all.
        """
        world_size = self._place.world_size
        if world_size == 1:
            return
        if self._finds_unused is None:
            parameters = [*self._parameters.values()]
            with self._meter.waiting():
                self._finds_unused = not average_gradients(parameters, world_size)
            exchanged_bytes = (
                sum(p.grad.nbytes for p in parameters if p.grad is not None) + self._map_bytes
            )
        else:
            self._meter.waited_since_gradient()
            exchanged_bytes = self._gradient_bytes()
            if self._finds_unused:
                exchanged_bytes += self._map_bytes
            else:
                self._check_used()
        self._meter.add("bytes_sent", ring_bytes(exchanged_bytes, world_size))

    def state(self) -> dict[str, Any]:
        """Return what the first step has shown, and the state of PowerSGD."""
        return {
            "finds_unused": self._finds_unused,
            "power_sgd": self._power_sgd and self._power_sgd.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state; the next step uses DDP."""
        if self._power_sgd and state["power_sgd"]:
            self._power_sgd.load(state["power_sgd"], self._device)
        self._finds_unused = state["finds_unused"] if self._place.world_size > 1 else None

    @property
    def _device(self) -> torch.device:
        return next(iter(self._parameters.values())).device

    def _make_ddp(self, finds_unused: bool) -> DistributedDataParallel:
        if finds_unused:  # torch warns in a step that happens to use all parameters
            warnings.filterwarnings(
                "ignore", "find_unused_parameters=True was specified", UserWarning
            )
        options = self.options
        power_sgd = self._power_sgd
        ddp_model = DistributedDataParallel(
            AccumulatedModel(self._ddp_switch.model),
            device_ids=[self._place.local_rank] if self._device.type == "cuda" else None,
            # PowerSGD keeps its state by bucket: with one for all, it fits a resumed run.
            bucket_cap_mb=2**20 if power_sgd else options.bucket_mb,
            gradient_as_bucket_view=options.gradient_as_bucket_view,
            static_graph=options.static_graph,
            # A static graph finds them by itself, and torch warns if it is asked for both.
            find_unused_parameters=finds_unused and not options.static_graph,
            # All ranks begin with rank 0's model, and `training.batch_norm` sees to the buffers.
            forward_sync_buffers=False,
            init_sync=False,
        )
        if power_sgd:
            power_sgd.register(ddp_model)
        elif self._compression_name != "none":
            ddp_model.register_comm_hook(None, HOOKS[self._compression_name])
        return ddp_model

    def _gradient_bytes(self) -> int:
        """Return the bytes that a step of DDP exchanges, without the map of used parameters."""
        parameters = self._parameters.values()
        if self._power_sgd:
            return self._power_sgd.size(parameters)
        element_bytes = WIDTHS.get(self._compression_name)
        return sum(p.numel() * (element_bytes or p.itemsize) for p in parameters)

    def _check_used(self) -> None:
        for name, parameter in self._parameters.items():
            if parameter.grad is None:
                bare_name = name.removeprefix("_orig_mod.")  # which torch.compile adds
                raise JobError(
                    f"--sync ddp: {bare_name} has no gradient in this step, although all "
                    "parameters had one in the first: DDP does not support a model that uses other "
                    "parameters from step to step; use --sync all_reduce"
                )


HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
WIDTHS = {"fp16": 2, "bf16": 2}
"""The bytes per element that a compression sends."""


class DDPSwitch(Module):
    """The module that the loop calls: DDP in the `last` micro-batch of a step, once there is one;
    otherwise the bare model."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model
        self.last = True
        self.ddp: DistributedDataParallel | None = None

    def forward(self, *inputs: Tensor) -> Any:
        """Return the output of the model."""
        return self.ddp(*inputs) if self.ddp and self.last else self.model(*inputs)


class AccumulatedModel(Module):
    """The model for DDP. A parameter with a gradient from an earlier micro-batch of the step counts
    as used by the last one too.

    Otherwise DDP would treat a parameter as unused that only the last micro-batch leaves out.
    """

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> Any:
        """Return the output of the model."""
        output = self.model(*inputs)
        if not torch.is_grad_enabled():
            return output
        used_before = [
            parameter for parameter in self.model.parameters() if parameter.grad is not None
        ]
        return MarkUsed.apply(output, *used_before) if used_before else output


class MarkUsed(torch.autograd.Function):
    """Returns its first input. The others become part of the graph and get no gradient."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, *parameters: Tensor) -> Tensor:
        """Return the first input."""
        ctx.parameters = len(parameters)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the first."""
        return (*gradients, *[None] * ctx.parameters)


def average_gradients(parameters: Sequence[Parameter], ranks: int) -> bool:
    """Replace each gradient by its mean over the ranks. One that no rank had stays None. Return
    True if each rank had all gradients."""
    used_map = torch.tensor(
        [p.grad is not None for p in parameters], dtype=torch.int32, device=parameters[0].device
    )
    distributed.all_reduce(used_map)
    use_counts: list[int] = used_map.tolist()
    pending_works = []
    for parameter, use_count in zip(parameters, use_counts, strict=True):
        if use_count:
            # A collective needs all ranks: those that did not use the parameter add zeros.
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            else:
                parameter.grad.div_(ranks)
            pending_works.append(distributed.all_reduce(parameter.grad, async_op=True))
    for work in pending_works:
        work.wait()
    return min(use_counts) == ranks
