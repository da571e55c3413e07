"""What becomes of BatchNorm's running statistics when several ranks train one model.

Ranks normalise by their own batch's statistics and keep running ones to evaluate with. `broadcast`: rank 0's count, as under
DistributedDataParallel; `local`: each rank keeps its own; `sync`: all ranks normalise by the joined batch's; `untracked`: there
are none, and a batch is normalised by its own statistics in evaluation too.
"""

from __future__ import annotations

from torch import nn

from training.meter import Meter
from training.place import Place
from training.sync import broadcast


class BatchNorm:
    """One of the modes, for one model."""

    def __init__(self, mode: str, place: Place, meter: Meter) -> None:
        self.mode, self._place, self._meter = mode, place, meter

    def convert(self, net: nn.Module) -> nn.Module:
        """The model with the mode's layers. Called before anything holds its parameters, on all ranks."""
        return net

    def settle(self, net: nn.Module) -> None:
        """Makes the model's buffers equal on all ranks, but for those that each rank keeps. Called by all ranks at once."""
        broadcast(net.buffers(), self._meter)
