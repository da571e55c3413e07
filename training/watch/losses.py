"""Finds the losses of a program: what its backward passes begin with."""

from __future__ import annotations

import sys
from typing import Any

from .steps import Steps

Locals = dict[str, Any]


class LossWatch:
    """Tells `steps` the loss of each backward pass, as it is before a GradScaler scales it."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._unscaled_loss: Any = None

    def note_scaling(self, variables: Locals) -> None:
        """Note the loss of the next backward pass, before a GradScaler scales it, without its
        graph."""
        loss = variables["outputs"]
        self._unscaled_loss = loss.detach() if _is_number(loss) else None

    def forget_scaling(self, _: Locals) -> None:
        """Forget what was scaled: `torch.autograd.grad` was called on it, as for a gradient
        penalty, so it is no loss of a step."""
        self._unscaled_loss = None

    def begin_backward(self, variables: Locals) -> None:
        """Take the loss of a backward pass."""
        loss = self._unscaled_loss
        self._unscaled_loss = None
        if loss is None:
            loss = variables["tensors"]
        if isinstance(loss, (list, tuple)) and len(loss) == 1:
            loss = loss[0]
        if variables.get("grad_tensors") is None and _is_number(loss):
            self._take(loss)

    def _take(self, loss: Any) -> None:
        """Take the loss without a wait: that on a GPU is read once the step has passed."""
        torch = sys.modules["torch"]
        clock = self._steps.clock
        if loss.is_cpu:
            loss_number = loss.item()
            if isinstance(loss_number, float):
                self._steps.lost(loss_number)
        elif loss.is_cuda and not loss.is_complex():
            clock.use_gpu()
            if not clock.is_capturing():
                loss_number = torch.empty((), dtype=loss.dtype, device="cpu", pin_memory=True)
                loss_number.copy_(loss.detach().reshape(()), non_blocking=True)
                self._steps.lost(loss_number)


def _is_number(loss: Any) -> bool:
    return type(loss) is sys.modules["torch"].Tensor and loss.numel() == 1
