"""How ranks that train one model share the running statistics of BatchNorm.

In training a rank normalises by the statistics of its own batch; it keeps running statistics for
evaluation. The modes are:

- `broadcast`: all ranks evaluate with those of the first rank, as under DistributedDataParallel;
- `local`: each rank keeps its own;
- `sync`: all ranks normalise by the statistics of the joined batch;
- `untracked`: there are none; in evaluation too, a batch is normalised by its own statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn
from torch.nn import Module

from training.meter import Meter
from training.place import Place
from training.rendezvous import new_group

Layer = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
"""The layers that a mode changes."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class BatchNorm:
    """A mode, for one model. `trainers` are the ranks that train; the statistics of others never
    change. `settles`: whether the ranks ever settle on one model."""

    def __init__(
        self, mode: str, place: Place, meter: Meter, trainers: Sequence[int], settles: bool = True
    ) -> None:
        self.mode = mode
        self._place = place
        self._meter = meter
        self._trainers = list(trainers)
        self._settles = settles

    def convert(self, net: Module) -> Module:
        """Return the model with the layers of the mode. Called on all ranks, before anything refers
        to the parameters."""
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

    def own(self, net: Module) -> dict[str, Tensor]:
        """Return the parts of the model that differ from rank to rank, by name: the statistics in
        the mode `local`; the whole model where the ranks never settle."""
        if len(self._trainers) < 2:
            return {}
        if not self._settles:
            return dict(net.state_dict())
        if self.mode != "local":
            return {}
        return {
            name: buffer
            for name, buffer in net.named_buffers()
            if name.rpartition(".")[2] in STATISTICS
        }

    def settle(self, net: Module) -> None:
        """Make the model's buffers equal on all ranks, except for each rank's own parts. Called by
        all ranks at once."""
        own = self.own(net)
        self._broadcast(buffer for name, buffer in net.named_buffers() if name not in own)

    @contextmanager
    def agreed(self, net: Module) -> Iterator[None]:
        """Make the whole model equal on all ranks for a while: each rank's own parts are those of
        the first training rank. Called by all ranks at once."""
        own = self.own(net)
        own_values = {name: tensor.clone() for name, tensor in own.items()}
        self._broadcast(own.values())
        try:
            yield
        finally:
            for name, tensor in own.items():
                tensor.copy_(own_values[name])

    def _broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Send the tensors of the first training rank to all, those of one type in one message."""
        if self._place.world_size == 1:
            return
        alike: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            alike.setdefault(tensor.dtype, []).append(tensor)
        for of_type in alike.values():
            flat = torch.cat([tensor.flatten() for tensor in of_type])
            with self._meter.waiting():
                distributed.broadcast(flat, src=self._trainers[0])
            parts = torch.split(flat, [tensor.numel() for tensor in of_type])
            for tensor, new in zip(of_type, parts, strict=True):
                tensor.copy_(new.view_as(tensor))

    def _synchronised(self, net: Module, layers: dict[str, Layer]) -> Module:
        """Return the model with synchronised layers. They have a process group of their own,
        because in backward they and the gradients' buckets may take turns in another order on each
        rank."""
        from training.batch_norm.sync import SyncBatchNorm

        group = new_group(self._trainers)
        if group is None:  # this rank does not train
            return net
        new_layers = {
            id(layer): SyncBatchNorm(layer, group, self._meter) for layer in layers.values()
        }
        for path, layer in layers.items():
            if not path:
                return new_layers[id(layer)]
            net.set_submodule(path, new_layers[id(layer)])
        return net


def batch_dependent(net: Module) -> bool:
    """Return True if the result for an image depends on the others in its batch: the model has a
    BatchNorm without running statistics."""
    return any(
        isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is None
        for layer in net.modules()
    )


def _untrack(layer: Layer) -> None:
    layer.track_running_stats = False
    for name in STATISTICS:
        layer.register_buffer(name, None)
