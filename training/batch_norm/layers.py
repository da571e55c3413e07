"""What becomes of BatchNorm's running statistics when several ranks train one model.

Ranks normalise by their own batch's statistics and keep running ones to evaluate with. `broadcast`:
the first rank's count, as rank 0's do under DistributedDataParallel; `local`: each rank keeps its
own; `sync`: all ranks normalise by the joined batch's; `untracked`: there are none, and a batch is
normalised by its own statistics in evaluation too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import distributed, nn

from training.meter import Meter
from training.place import Place
from training.rendezvous import new_group

Layer = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
"""The layers that a mode is about."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class BatchNorm:
    """One of the modes, for one model. `trainers` are the ranks that train: the others' statistics
    never move. `settles`: whether the ranks ever settle on one model at all."""

    def __init__(
        self, mode: str, place: Place, meter: Meter, trainers: Sequence[int], settles: bool = True
    ) -> None:
        self.mode, self._place, self._meter, self._trainers, self._settles = (
            mode,
            place,
            meter,
            list(trainers),
            settles,
        )

    def convert(self, net: nn.Module) -> nn.Module:
        """The model with the mode's layers. Called before anything holds its parameters, on all
        ranks."""
        layers = {
            name: layer
            for name, layer in net.named_modules(remove_duplicate=False)
            if isinstance(layer, Layer)
        }
        if self.mode == "untracked":
            for layer in layers.values():
                _untrack(layer)
        if self.mode == "sync" and len(self._trainers) > 1 and layers:
            return self._synchronised(net, layers)
        return net

    def own(self, net: nn.Module) -> dict[str, torch.Tensor]:
        """What of the model each rank keeps for itself, by name: its statistics in the mode
        `local`, and all of it where the ranks never settle on one."""
        if len(self._trainers) < 2:
            return {}
        if not self._settles:
            return dict(net.state_dict())
        if self.mode != "local":
            return {}
        layers = [(path, layer) for path, layer in net.named_modules() if isinstance(layer, Layer)]
        return {
            f"{path}.{name}".lstrip("."): buffer
            for path, layer in layers
            for name, buffer in layer.named_buffers(recurse=False)
            if name in STATISTICS
        }

    def settle(self, net: nn.Module) -> None:
        """Makes the model's buffers equal on all ranks, but for what each rank keeps. Called by all
        ranks at once."""
        own = self.own(net)
        self._broadcast(buffer for name, buffer in net.named_buffers() if name not in own)

    @contextmanager
    def agreed(self, net: nn.Module) -> Iterator[None]:
        """Within it the settled model is one on all ranks, also where each keeps something of its
        own: then with the first training rank's. Called by all ranks at once."""
        own = self.own(net)
        kept = {name: tensor.clone() for name, tensor in own.items()}
        self._broadcast(own.values())
        try:
            yield
        finally:
            for name, tensor in own.items():
                tensor.copy_(kept[name])

    def _broadcast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Gives the first training rank's tensors to all, those of one type in one message."""
        if self._place.world_size == 1:
            return
        alike: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in tensors:
            alike.setdefault(tensor.dtype, []).append(tensor)
        for of_type in alike.values():
            flat = torch.cat([tensor.flatten() for tensor in of_type])
            with self._meter.waiting():
                distributed.broadcast(flat, src=self._trainers[0])
            for tensor, new in zip(
                of_type, torch.split(flat, [tensor.numel() for tensor in of_type]), strict=True
            ):
                tensor.copy_(new.view_as(tensor))

    def _synchronised(self, net: nn.Module, layers: dict[str, Layer]) -> nn.Module:
        """The model with synchronised layers, in a group of their own: the order in which they and
        the gradients' buckets take turns in backward may differ from rank to rank."""
        from training.batch_norm.sync import SyncBatchNorm

        group = new_group(self._trainers)
        if group is None:  # this rank does not train
            return net
        made = {id(layer): SyncBatchNorm(layer, group, self._meter) for layer in layers.values()}
        for path, layer in layers.items():
            if not path:
                return made[id(layer)]
            net.set_submodule(path, made[id(layer)])
        return net


def batch_dependent(net: nn.Module) -> bool:
    """Whether the model evaluates an image by those beside it in the batch: it has a BatchNorm
    without running statistics."""
    return any(
        isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is None
        for layer in net.modules()
    )


def _untrack(layer: Layer) -> None:
    layer.track_running_stats = False
    for name in STATISTICS:
        layer.register_buffer(name, None)
