"""PyTorch's DistributedDataParallel: gradients travel in buckets while backward still runs, as they
are or compressed.

A run's first step is made by the bare model and reduced here, parameter by parameter; it shows
whether any rank leaves a parameter unused. From the second step on the model is wrapped, told to
look for unused parameters only where there are any.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._dynamo  # DDP's constructor would, during the second step
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from training.job import JobError
from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod
from training.sync.parts import payload
from training.sync.parts.power_sgd import PowerSGD

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
    """DDP leaves buffers alone here: nobody waits for a slow rank inside forward, where the wait
    could not be told from computing. Alone, a rank needs no DDP.
    """

    def prepare(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter
    ) -> nn.Module:
        """A module that calls the model as it is in the first step, then through DDP."""
        self._place, self._meter = place, meter
        self._named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._finds_unused: bool | None = None
        self._compression = self.options.compression
        if self._compression == "none" and self.wire == torch.bfloat16:
            self._compression = "bf16"
        self._power_sgd = (
            PowerSGD(self.options.rank, self.options.start)
            if self._compression == "powersgd"
            else None
        )
        self._wrapped = Wrapped(model)
        return self._wrapped if place.world_size > 1 else model

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Before the last, the bare model accumulates gradients, as under `no_sync`."""
        self._wrapped.last = last
        if last and self._finds_unused is not None and self._wrapped.ddp is None:
            with (
                self._meter.waiting()
            ):  # only now: a static graph's first step counts what DDP sees of the micro-batches
                self._wrapped.ddp = self._ddp(self._finds_unused)
        return nullcontext()

    def reduce(self, model: nn.Module) -> None:
        """Backward has done it; what it took after the last gradient was waiting. In the first step
        it is done here.

        Raises: JobError, where a parameter is unused, though in the first step none was.
        """
        if self._place.world_size == 1:
            return
        if self._finds_unused is None:
            with self._meter.waiting():
                self._finds_unused = not average(
                    [p for _, p in self._named], self._place.world_size
                )
            self._count_bytes(
                sum(p.grad.nbytes for _, p in self._named if p.grad is not None) + self._map_bytes
            )
            return
        self._meter.waited_since_gradient()
        self._check_used()
        self._count_bytes(self._bytes + self._map_bytes * self._finds_unused)

    def state(self) -> dict[str, Any]:
        """What the first step showed, and what PowerSGD keeps."""
        return {
            "finds_unused": self._finds_unused,
            "power_sgd": self._power_sgd and self._power_sgd.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """The next step goes through DDP at once."""
        if self._power_sgd and state["power_sgd"]:
            self._power_sgd.load(state["power_sgd"], self._named[0][1].device)
        self._finds_unused = state["finds_unused"] if self._place.world_size > 1 else None

    def _ddp(self, finds_unused: bool) -> DistributedDataParallel:
        if finds_unused:  # in a step that happens to use all of them torch would advise against it
            warnings.filterwarnings(
                "ignore", "find_unused_parameters=True was specified", UserWarning
            )
        ddp = DistributedDataParallel(
            Held(self._wrapped.model),
            device_ids=[self._place.local_rank] if self._named[0][1].is_cuda else None,
            bucket_cap_mb=2**20 if self._power_sgd else self.options.bucket_mb,
            gradient_as_bucket_view=self.options.gradient_as_bucket_view,
            static_graph=self.options.static_graph,
            find_unused_parameters=finds_unused and not self.options.static_graph,
            forward_sync_buffers=False,
            init_sync=False,
        )
        if self._power_sgd:
            self._power_sgd.register(ddp)
        elif self._compression != "none":
            ddp.register_comm_hook(None, HOOKS[self._compression])
        return ddp

    @property
    def _bytes(self) -> int:
        """The size of what a step through DDP exchanges, without the map of used parameters."""
        if self._power_sgd:
            return self._power_sgd.size([p for _, p in self._named])
        return sum(p.numel() * WIDTHS.get(self._compression, p.itemsize) for _, p in self._named)

    @property
    def _map_bytes(self) -> int:
        """The size of the map of used parameters: an int32 each, in DDP as in the first step."""
        return 4 * len(self._named)

    def _count_bytes(self, size: int) -> None:
        self._meter.add("bytes_sent", payload.ring(size, self._place.world_size))

    def _check_used(self) -> None:
        if self._finds_unused:
            return
        for name, parameter in self._named:
            if parameter.grad is None:
                known = name.removeprefix(
                    "_orig_mod."
                )  # as a compiled model calls the one it is made of
                raise JobError(
                    f"--sync ddp: {known} has no gradient in this step, though all parameters had "
                    "one in the first: DDP cannot "
                    "follow a model whose use of its parameters changes; use --sync all_reduce"
                )


HOOKS = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
WIDTHS = {"fp16": 2, "bf16": 2}
"""Bytes per element that a compression sends."""


class Wrapped(nn.Module):
    """What the loop calls: the model itself, or DDP around it, where there is one, in the `last`
    micro-batch of a step."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.last = model, True
        self.ddp: DistributedDataParallel | None = None

    def forward(self, *inputs: torch.Tensor) -> Any:
        """As the model's."""
        return self.ddp(*inputs) if self.ddp and self.last else self.model(*inputs)


class Held(nn.Module):
    """The model, for DDP: a parameter that has a gradient from an earlier micro-batch of the step
    counts as used by this one.

    Else DDP would take a parameter for unused that only the last micro-batch leaves out.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> Any:
        """As the model's."""
        output = self.model(*inputs)
        held = (
            [p for p in self.model.parameters() if p.grad is not None]
            if torch.is_grad_enabled()
            else []
        )
        return Uses.apply(output, *held) if held else output


class Uses(torch.autograd.Function):
    """Hands on its first input; the others are part of the graph and get no gradient from here."""

    @staticmethod
    def forward(ctx: Any, output: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """The first input."""
        ctx.parameters = len(parameters)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradient of the first."""
        return (*gradients, *[None] * ctx.parameters)


def average(parameters: Sequence[nn.Parameter], ranks: int) -> bool:
    """Replaces each gradient by its mean over the ranks: whether each rank had all of them. One
    that none had stays None."""
    used = torch.tensor(
        [p.grad is not None for p in parameters], dtype=torch.int32, device=parameters[0].device
    )
    distributed.all_reduce(used)
    counts: list[int] = used.tolist()
    works = []
    for parameter, count in zip(parameters, counts, strict=True):
        if count:
            parameter.grad = (
                torch.zeros_like(parameter)
                if parameter.grad is None
                else parameter.grad.div_(ranks)
            )
            works.append(distributed.all_reduce(parameter.grad, async_op=True))
    for work in works:
        work.wait()
    return min(counts) == ranks
