"""A parameter server: workers push gradients to one rank, which applies the optimiser, and pull the
parameters.

With `mode=sync` each step uses the mean of all gradients, as in other exact methods. With
`mode=async` the server applies each gradient as it arrives, so no rank waits for a slower one. The
*staleness* of a gradient is the number of updates by others between its worker's pull and push.
Each gradient is its worker's own mean, applied with the learning rate divided by the number of
ranks that train.

Source: Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014; for
`async` Dean et al., Large Scale Distributed Deep Networks (Downpour SGD), NeurIPS 2012.
"""

from __future__ import annotations

from datetime import timedelta

from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.place import Place
from training.rendezvous import TIMEOUT
from training.sync import SyncMethod
from training.sync.common.async_server import AsyncServer
from training.sync.common.push_pull import connect_peers
from training.sync.common.sync_server import SyncServer
from training.sync.common.worker import Worker

PATIENCE = timedelta(days=1)
"""How long ranks that work at their own pace wait for the slowest, at the end of an epoch. One that
dies is noticed at once."""


OPTIONS = {
    "mode": {
        "default": "sync",
        "help": "sync: one update with the mean of all gradients; async: one update per gradient",
        "choices": ("sync", "async"),
    },
    "server": {
        "default": 0,
        "help": "the rank that holds the parameters",
        "low": 0,
        "is_rank": True,
    },
    "dedicated": {
        "default": False,
        "help": "the server takes no samples",
        "min_ranks": 2,
    },
    "bucket_mb": {
        "default": 25.0,
        "help": "size in MB at which a bucket is closed; 0: one bucket per parameter",
        "low": 0,
    },
}
TRAITS = {
    "exact": {"mode": "sync"},
    "stale": {"mode": "async"},
    "dedicated_server": {"dedicated": True},
}


class Method(SyncMethod):
    """One of the two sides: its verbs are those of the server or of a worker."""

    def prepare(self, model: Module, optimizer: Optimizer, place: Place, meter: Meter) -> Module:
        """Return the model; its parameters are views of flat buffers from now on."""
        options = self.options
        is_sync = options.mode == "sync"
        peers = connect_peers(place, options.server, TIMEOUT if is_sync else PATIENCE)
        training_ranks = place.world_size - options.dedicated
        own_side: SyncMethod
        if place.rank != options.server:
            own_side = Worker(self, peers[0], model, meter, training_ranks if is_sync else 1)
        else:
            server_class = SyncServer if is_sync else AsyncServer
            own_side = server_class(self, peers, model, optimizer, meter, training_ranks)
        for verb in ("micro", "reduce", "step", "settle", "serve", "state", "load"):
            setattr(self, verb, getattr(own_side, verb))
        return model
