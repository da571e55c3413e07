"""BatchNorm over the joined batch of several ranks. Unlike torch's SyncBatchNorm it runs on CPUs
too.

Forward and backward make one all-reduce each: forward of every channel's count, sum and sum of
squares; backward of the gradient's sum and of its product with the normalised input (Ioffe and
Szegedy 2015, the gradients of the mean and the variance, over all ranks' samples).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd.function import once_differentiable
from torch.distributed import ProcessGroup
from torch.nn.functional import batch_norm

from training.meter import Meter
from training.step_formulas import ring_bytes

SumOverRanks = Callable[[Tensor], None]
"""Replaces a tensor by its sum over the ranks."""


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Replaces a BatchNorm layer, with its parameters and buffers under the same names.

    In training, (N, C, ...) is normalised per channel by the mean and variance over the samples of
    all ranks of the group. They call it in the same order; N may differ. In evaluation it does what
    the replaced layer does.
    """

    def __init__(
        self, layer: nn.modules.batchnorm._BatchNorm, group: ProcessGroup, meter: Meter
    ) -> None:
        super().__init__(
            layer.num_features, layer.eps, layer.momentum, affine=False, track_running_stats=False
        )
        self.affine = layer.affine
        self.training = layer.training
        self.track_running_stats = layer.track_running_stats
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(self, name, getattr(layer, name))
        self._group = group
        self._meter = meter

    # Waiting for other ranks must not be traced, so a compiled graph ends before it.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input, in its type."""
        if not self.training:
            return super().forward(input)
        self._check_input_dim(input)
        with torch.no_grad():
            count, mean, variance = self._joined(input)
            if self.track_running_stats:
                self._track(count, mean, variance)
        wide = torch.promote_types(input.dtype, torch.float32)
        output: Tensor = _Normalise.apply(
            input,
            self.weight,
            self.bias,
            mean.to(wide),
            variance.to(wide),
            count,
            self.eps,
            self._sum,
        )
        return output

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected (N, C, ...), got {tuple(input.shape)}")

    def _joined(self, input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the ranks' joined count (), and mean and biased variance (C,), in float64.

        Each rank computes its mean and variance in two passes, so a large mean costs digits only in
        the float64 sums.
        """
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        mean, variance = (
            figure.double() for figure in torch.batch_norm_update_stats(wide, None, None, 0.0)
        )
        count = mean.new_full((1,), input.numel() // input.shape[1])
        sums = torch.cat((count, count * mean, count * (variance + mean.square())))
        self._sum(sums)
        mean, squares = (sums[1:] / sums[0]).chunk(2)
        return sums[0], mean, (squares - mean.square()).clamp_(min=0)

    def _track(self, count: Tensor, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics, with the unbiased variance, as nn.BatchNorm does."""
        self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
        weight = self.momentum
        if weight is None:
            weight = 1.0 / float(self.num_batches_tracked)  # type: ignore[arg-type]
        for running, new in (
            (self.running_mean, mean),
            (self.running_var, variance * (count / (count - 1))),
        ):
            running.lerp_(new.to(running.dtype), weight)  # type: ignore[union-attr]

    def _sum(self, tensor: Tensor) -> None:
        with self._meter.waiting():
            distributed.all_reduce(tensor, group=self._group)
        self._meter.add("bytes_sent", ring_bytes(tensor.nbytes, self._group.size()))


class _Normalise(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) x weight + bias, where mean and variance depend on the x of
    all ranks.

    The gradients of weight and bias are this rank's part, as for other parameters. Every rank
    scales its loss so that the mean over ranks is the joined gradient; the gradient of x is linear
    in the ranks' gradients, so it has the same scale.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: Tensor,
        eps: float,
        sum_over_ranks: SumOverRanks,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, variance, count)
        ctx.eps = eps
        ctx.sum_over_ranks = sum_over_ranks
        return batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance, count = ctx.saved_tensors
        # The gradients of a layer with fixed statistics: the sums of dy times normalised x, and of
        # dy. On a GPU torch also demands a weight, and the batch's statistics, which it ignores.
        inverse = (variance + ctx.eps).rsqrt()
        scale = torch.ones_like(mean) if weight is None else weight
        _, dy_xhat, dy_sum = torch.ops.aten.native_batch_norm_backward(
            dy, x, scale, mean, variance, mean, inverse, False, ctx.eps, [False, True, True]
        )
        dx = None
        if ctx.needs_input_grad[0]:
            sums = torch.cat((dy_xhat, dy_sum)).double()
            ctx.sum_over_ranks(sums)
            means = (sums / count).to(mean.dtype).chunk(2)
            dx = _input_gradient(dy, x, weight, mean, inverse, *means)
        dweight = dy_xhat if ctx.needs_input_grad[1] else None
        dbias = dy_sum if ctx.needs_input_grad[2] else None
        return (dx, dweight, dbias, *5 * (None,))


def _input_gradient(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_deviation: Tensor,
    mean_dy_xhat: Tensor,
    mean_dy: Tensor,
) -> Tensor:
    """Return weight / deviation x (dy - mean(dy) - xhat x mean(dy xhat)), computed as a factor of
    dy, a factor of x and a rest."""
    of_dy = inverse_deviation if weight is None else inverse_deviation * weight
    of_x = -of_dy * inverse_deviation * mean_dy_xhat
    rest = -of_dy * mean_dy - of_x * mean
    of_dy, of_x, rest = (factor.view(-1, *(1,) * (x.dim() - 2)) for factor in (of_dy, of_x, rest))
    return torch.addcmul(dy * of_dy + rest, x, of_x).to(x.dtype)
