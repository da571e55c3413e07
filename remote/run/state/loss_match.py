"""Compares the first loss that a script prints with those that the watch sees in its steps."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

KEPT_LOSSES = 1000
"""The newest losses of steps that are kept until the script prints one: lines come up to a second
after their step."""
MORE_STEPS = 20
"""Steps that are awaited after a loss whose line names no step, as it may be of one of them."""


@dataclass(slots=True)
class PrintedLoss:
    """A loss that a script has printed."""

    value: float
    step: int
    """The step that its line names; otherwise the newest step at that time."""
    names_step: bool


@dataclass(slots=True)
class LossMatch:
    """The losses that the watch sees, and the first one that the script prints.

    A script may print the loss of the step, or any mean of those so far, and both fall quickly at
    the beginning. So the printed loss is compared with a range: from the loss of the step that its
    line names to the mean of all losses until then. Of a line that names no step, the range is that
    of all losses. It waits for the steps that it needs; a loss that is printed before the first of
    them does not count. Losses that reach 0 have no range to compare with.
    """

    ratio: float = 0.0
    """How far the first printed loss is out of the range, at least 1; 0: not known yet."""
    printed: PrintedLoss | None = None
    """The first printed loss."""
    step_loss: float = math.nan
    """The end of the range that is nearest to it."""
    newest_step: int = 0
    _losses: array[float] = field(default_factory=lambda: array("d"))
    """The newest losses of steps without a gap, the last one of `newest_step`."""
    _count: int = 0
    _sum: float = 0.0
    """Of all losses that are numbers."""
    _lowest: float = math.inf
    _highest: float = -math.inf

    @property
    def is_awaited(self) -> bool:
        """Return True if the next steps may decide how the printed loss compares."""
        return self.printed is not None and not self.ratio

    def take_steps(self, first_step: int, losses: Sequence[float]) -> None:
        """Take in the losses of steps that follow one another."""
        if self.ratio:
            return
        if first_step != self.newest_step + 1:
            del self._losses[:]
        self.newest_step = first_step + len(losses) - 1
        self._losses.extend(losses)
        del self._losses[:-KEPT_LOSSES]
        self._add_up(filter(math.isfinite, losses))
        if self.printed:
            self._compare(self.printed)

    def take_print(self, value: float, step: int, *, names_step: bool) -> None:
        """Take in a loss that the script prints. Only the first one counts: later ones may be means
        over an epoch, which are far behind the steps."""
        if self.printed is None and self._count and value > 0 and math.isfinite(value):
            self.printed = PrintedLoss(value, step, names_step)
            self._compare(self.printed)

    def end(self) -> None:
        """Take in that there are no more steps."""
        if self.printed and not self.ratio:
            self._decide(self._find_ratio(self.printed))

    def _add_up(self, losses: Iterable[float]) -> None:
        # One after the other, so that a sum does not depend on how many steps come at once.
        for loss in losses:
            self._count += 1
            self._sum += loss
            self._lowest = min(self._lowest, loss)
            self._highest = max(self._highest, loss)

    def _compare(self, printed: PrintedLoss) -> None:
        ratio = self._find_ratio(printed)
        # A line may also count from 0, or come before the end of its step.
        last_step = printed.step + (1 if printed.names_step else MORE_STEPS)
        if self.newest_step >= last_step or (ratio == 1 and self.newest_step >= printed.step):
            self._decide(ratio)

    def _decide(self, ratio: float) -> None:
        if not ratio and self._lowest <= 0:
            ratio = 1.0
        self.ratio = ratio
        # Without a loss to compare it with, as before the first backward pass, the next one counts.
        if not ratio:
            self.printed = None
            return
        del self._losses[:]

    def _find_ratio(self, printed: PrintedLoss) -> float:
        """Return how far a printed loss is out of the range, at least 1; 0 if there is none."""
        lowest, highest = self._find_range(printed)
        if not 0 < lowest <= highest:
            return 0.0
        is_higher = printed.value > highest
        self.step_loss = highest if is_higher else lowest
        return max(1.0, printed.value / highest, lowest / printed.value)

    def _find_range(self, printed: PrintedLoss) -> tuple[float, float]:
        """Return the lowest and the highest loss with which a printed one is compared."""
        first_kept = self.newest_step - len(self._losses) + 1
        if not printed.names_step or not first_kept <= printed.step <= self.newest_step:
            return self._lowest, self._highest
        place = printed.step - first_kept
        step_losses = [*filter(math.isfinite, self._losses[place : place + 2])]
        later_losses = [*filter(math.isfinite, self._losses[place + 1 :])]
        count_until = self._count - len(later_losses)
        if not step_losses or not count_until:
            return self._lowest, self._highest
        mean_until = (self._sum - sum(later_losses)) / count_until
        return min(*step_losses, mean_until), max(*step_losses, mean_until)
