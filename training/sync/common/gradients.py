"""Gradients as views of flat buffers (*buckets*), each of which travels as one tensor.

In the last backward of a step a hook packs each new gradient into its bucket, divided by the number
of ranks, so that the sum over the ranks is the mean. A full bucket is launched during backward,
always in the order of the index, so all ranks launch in the same order, whatever the order of their
hooks. At its end each bucket has one flag per parameter: 1 where this rank used it. A sum of 0 says
that no rank used the parameter, without another exchange.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import Module, Parameter


@dataclass(eq=False)
class Bucket:
    """The gradients of some parameters. `buffer` (elements + parameters,) travels: the gradients,
    of which `views` have the shapes and strides of the parameters, then the `flags` (parameters,).
    `used`: which of them this rank has packed; `missing` counts the others."""

    index: int
    buffer: Tensor
    parameters: tuple[Parameter, ...]
    views: tuple[Tensor, ...]
    flags: Tensor
    used: list[bool] = field(default_factory=list)
    missing: int = 0

    def reset(self) -> None:
        """Mark all gradients as not packed."""
        self.used, self.missing = [False] * len(self.parameters), len(self.parameters)


class Gradients:
    """The gradients of a model's parameters that need one, as buckets.

    `launch` is called once per step with each complete bucket: from a hook inside backward, or from
    `flush`. With a `bucket_mb` of 0 each parameter has a bucket of its own, with infinity each type
    of parameter has one. `gradient_dtype` is the type of the buffers if it is narrower than single
    precision; otherwise they have the type of the parameters.
    """

    def __init__(
        self,
        model: Module,
        launch: Callable[[Bucket], None],
        ranks: int,
        *,
        bucket_mb: float = math.inf,
        gradient_dtype: torch.dtype = torch.float32,
        overlap: bool = True,
    ) -> None:
        self._launch = launch
        self._ranks = ranks
        self._overlap = overlap
        self._last = False
        self._launched = 0
        self.buckets = tuple(
            _bucket(i, parameters, gradient_dtype)
            for i, parameters in enumerate(_split(model, bucket_mb * 1e6, gradient_dtype))
        )
        for bucket in self.buckets:
            for position, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self._hook(bucket, position))  # type: ignore[no-untyped-call]

    @property
    def size(self) -> int:
        """Return the bytes of all buckets, with flags."""
        return sum(bucket.buffer.nbytes for bucket in self.buckets)

    @contextmanager
    def micro(self, last: bool) -> Iterator[None]:
        """Surround each forward and backward; in the last one of a step, gradients are packed as
        they arrive."""
        self._last = last and self._overlap
        try:
            yield
        finally:
            self._last = False

    def flush(self) -> None:
        """Finish packing after the last backward of a step: pack what no hook has packed (zeros
        where there is no gradient), and launch the remaining buckets."""
        for bucket in self.buckets[self._launched :]:
            for position, used in enumerate(bucket.used):
                if not used:
                    self._pack(bucket, position)
            self._launch_bucket(bucket)
        self._launched = 0

    def unpack(self, bucket: Bucket) -> None:
        """Take the gradients from an exchanged bucket: `grad` becomes the mean, or None if no rank
        used the parameter."""
        used = bucket.used if all(bucket.used) else (bucket.flags > 0).tolist()
        for parameter, view, anywhere in zip(bucket.parameters, bucket.views, used, strict=True):
            if not anywhere:
                parameter.grad = None
            elif view.dtype == parameter.dtype:
                parameter.grad = view
            elif parameter.grad is not None:
                parameter.grad.copy_(view)
            else:
                parameter.grad = torch.empty_like(parameter).copy_(view)
        bucket.reset()

    def _hook(self, bucket: Bucket, position: int) -> Callable[[Tensor], None]:
        def arrived(_: Tensor) -> None:
            if self._last:
                self._pack(bucket, position)
                self._launch_full()

        return arrived

    def _pack(self, bucket: Bucket, position: int) -> None:
        parameter = bucket.parameters[position]
        view = bucket.views[position]
        if parameter.grad is None:
            view.zero_()
            return
        torch.div(parameter.grad, self._ranks, out=view)
        if view.dtype == parameter.dtype:
            parameter.grad = view
        bucket.used[position] = True
        bucket.missing -= 1

    def _launch_full(self) -> None:
        while self._launched < len(self.buckets) and not self.buckets[self._launched].missing:
            bucket = self.buckets[self._launched]
            self._launched += 1
            self._launch_bucket(bucket)

    def _launch_bucket(self, bucket: Bucket) -> None:
        if bucket.missing:
            bucket.flags.copy_(torch.tensor(bucket.used))
        else:
            bucket.flags.fill_(1)
        self._launch(bucket)


def gradient_type(parameter: Parameter, gradient_dtype: torch.dtype) -> torch.dtype:
    """Return the type in which the gradient of a parameter travels."""
    return gradient_dtype if gradient_dtype.itemsize < torch.float32.itemsize else parameter.dtype


def _split(model: Module, size: float, gradient_dtype: torch.dtype) -> Iterator[list[Parameter]]:
    """Split the parameters, in about the order of backward, into buckets of one type. A bucket is
    closed once it holds `size` bytes. Backward does not hide the last one, which is small if the
    first layers are small, as usual."""
    bucket: list[Parameter] = []
    total = 0
    for parameter in reversed([p for p in model.parameters() if p.requires_grad]):
        kind = _bucket_kind(parameter, gradient_dtype)
        is_full = total >= size
        if bucket and (is_full or _bucket_kind(bucket[0], gradient_dtype) != kind):
            yield bucket
            bucket = []
            total = 0
        bucket.append(parameter)
        total += parameter.numel() * kind[0].itemsize
    if bucket:
        yield bucket


def _bucket_kind(
    parameter: Parameter, gradient_dtype: torch.dtype
) -> tuple[torch.dtype, torch.device]:
    """Return what the gradients of one bucket have in common."""
    return gradient_type(parameter, gradient_dtype), parameter.device


def _bucket(index: int, parameters: list[Parameter], gradient_dtype: torch.dtype) -> Bucket:
    sizes = [parameter.numel() for parameter in parameters]
    kind = gradient_type(parameters[0], gradient_dtype)
    buffer = torch.zeros(sum(sizes) + len(sizes), dtype=kind, device=parameters[0].device)
    *flat, flags = torch.split(buffer, [*sizes, len(sizes)])
    views = tuple(
        view_like(part, parameter) for part, parameter in zip(flat, parameters, strict=True)
    )
    bucket = Bucket(index, buffer, tuple(parameters), views, flags)
    bucket.reset()
    return bucket


def view_like(flat: Tensor, parameter: Tensor) -> Tensor:
    """View elements (n,) as a tensor of the parameter's shape, with its strides where they leave no
    gaps (such as channels_last)."""
    strides = sorted(zip(parameter.stride(), parameter.shape, strict=True))
    dense = all(
        stride == math.prod(n for _, n in strides[:i])
        for i, (stride, n) in enumerate(strides)
        if n > 1
    )
    if dense:
        return flat.as_strided(parameter.shape, parameter.stride())
    return flat.view(parameter.shape)
