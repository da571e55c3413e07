"""Gradients as views of flat buffers (*buckets*), each of which travels as one tensor.

In the last backward of a step a hook packs each new gradient into its bucket, divided by the number
of ranks, so that the sum over the ranks is the mean. A full bucket is launched during backward,
always in the order of the index, so all ranks launch in the same order, whatever the order of their
hooks. At its end each bucket has one flag per parameter: 1 where this rank used it. A sum of 0 says
that no rank used the parameter, without another exchange.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
        self.missing = len(self.parameters)
        self.used = [False] * self.missing


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
        self._launch_exchange = launch
        self._ranks = ranks
        self._overlaps_backward = overlap
        self._last = False
        self._launched = 0
        self.buckets = tuple(
            _make_bucket(index, parameters, gradient_dtype)
            for index, parameters in enumerate(
                _split_parameters(model, bucket_mb * 1e6, gradient_dtype)
            )
        )
        for bucket in self.buckets:
            for position, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self._make_hook(bucket, position))  # type: ignore[no-untyped-call]

    @property
    def size(self) -> int:
        """Return the bytes of all buckets, with flags."""
        return sum(bucket.buffer.nbytes for bucket in self.buckets)

    @contextmanager
    def micro(self, last: bool) -> Iterator[None]:
        """Surround each forward and backward; in the last one of a step, gradients are packed as
        they arrive."""
        self._last = last and self._overlaps_backward
        try:
            yield
        finally:
            self._last = False

    def flush(self) -> None:
        """Finish packing after the last backward of a step: pack what no hook has packed (zeros
        where there is no gradient), and launch the remaining buckets."""
        for bucket in self.buckets[self._launched :]:
            for position, is_packed in enumerate(bucket.used):
                if not is_packed:
                    self._pack_gradient(bucket, position)
            self._launch_bucket(bucket)
        self._launched = 0

    def unpack(self, bucket: Bucket) -> None:
        """Take the gradients from an exchanged bucket: `grad` becomes the mean, or None if no rank
        used the parameter."""
        # If this rank used all, no sum of flags is 0; to read flags on a GPU would wait for it.
        used_anywhere = bucket.used if all(bucket.used) else (bucket.flags > 0).tolist()
        for parameter, view, is_used in zip(
            bucket.parameters, bucket.views, used_anywhere, strict=True
        ):
            if not is_used:
                parameter.grad = None
            elif view.dtype == parameter.dtype:
                parameter.grad = view
            elif parameter.grad is not None:
                parameter.grad.copy_(view)
            else:
                parameter.grad = torch.empty_like(parameter).copy_(view)
        bucket.reset()

    def _make_hook(self, bucket: Bucket, position: int) -> Callable[[Tensor], None]:
        def pack_arrived(_: Tensor) -> None:
            if self._last:
                self._pack_gradient(bucket, position)
                self._launch_full()

        return pack_arrived

    def _pack_gradient(self, bucket: Bucket, position: int) -> None:
        parameter = bucket.parameters[position]
        view = bucket.views[position]
        if parameter.grad is None:
            view.zero_()
            return
        torch.div(parameter.grad, self._ranks, out=view)
        # The exchange then changes the gradient itself, and nothing is copied back.
        if view.dtype == parameter.dtype:
            parameter.grad = view
        bucket.used[position] = True
        bucket.missing -= 1

    def _launch_full(self) -> None:
        while self._launched < len(self.buckets):
            bucket = self.buckets[self._launched]
            if bucket.missing:
                break
            self._launched += 1
            self._launch_bucket(bucket)

    def _launch_bucket(self, bucket: Bucket) -> None:
        if bucket.missing:
            bucket.flags.copy_(torch.tensor(bucket.used))
        else:
            bucket.flags.fill_(1)
        self._launch_exchange(bucket)


def _travel_type(parameter: Parameter, gradient_dtype: torch.dtype) -> torch.dtype:
    """Return the type in which the gradient of a parameter travels."""
    is_narrow = gradient_dtype.itemsize < torch.float32.itemsize
    return gradient_dtype if is_narrow else parameter.dtype


def _split_parameters(
    model: Module, bucket_size: float, gradient_dtype: torch.dtype
) -> Iterator[list[Parameter]]:
    """Split the parameters, in about the order of backward, into buckets of one type. A bucket is
    closed once it holds `bucket_size` bytes. Backward does not hide the last one, which is small if
    the first layers are small, as usual."""
    bucket: list[Parameter] = []
    bucket_kind = None
    bucket_bytes = 0
    # Backward makes the gradients of the last layers first.
    for parameter in reversed([*model.parameters()]):
        if not parameter.requires_grad:
            continue
        travel_type = _travel_type(parameter, gradient_dtype)
        parameter_kind = (travel_type, parameter.device)
        if bucket and (bucket_bytes >= bucket_size or parameter_kind != bucket_kind):
            yield bucket
            bucket = []
            bucket_bytes = 0
        bucket_kind = parameter_kind
        bucket.append(parameter)
        bucket_bytes += parameter.numel() * travel_type.itemsize
    if bucket:
        yield bucket


def _make_bucket(index: int, parameters: list[Parameter], gradient_dtype: torch.dtype) -> Bucket:
    travel_type = _travel_type(parameters[0], gradient_dtype)
    buffer, views, flags = flat_views(parameters, travel_type, spare=len(parameters))
    bucket = Bucket(index, buffer, tuple(parameters), views, flags)
    bucket.reset()
    return bucket


def flat_views(
    parameters: Sequence[Parameter], dtype: torch.dtype, spare: int = 0
) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
    """Make a flat buffer (elements + spare,) of zeros for some parameters. Return it, views of it
    like each of them, and its spare elements."""
    sizes = [parameter.numel() for parameter in parameters]
    buffer = torch.zeros(sum(sizes) + spare, dtype=dtype, device=parameters[0].device)
    *flat_parts, spare_part = torch.split(buffer, [*sizes, spare])
    views = tuple(map(view_like, flat_parts, parameters))
    return buffer, views, spare_part


def view_like(flat: Tensor, parameter: Tensor) -> Tensor:
    """View elements (n,) as a tensor of the parameter's shape, with its strides where they leave no
    gaps (such as channels_last)."""
    dense_stride = 1
    is_dense = True
    for stride, size in sorted(zip(parameter.stride(), parameter.shape, strict=True)):
        is_dense = is_dense and (size <= 1 or stride == dense_stride)
        dense_stride *= size
    if is_dense:
        return flat.as_strided(parameter.shape, parameter.stride())
    return flat.view(parameter.shape)
