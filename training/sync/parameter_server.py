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

from contextlib import AbstractContextManager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed, nn

from training.meter import Meter
from training.place import Place
from training.rendezvous import TIMEOUT
from training.sync import SyncMethod
from training.sync.parts.async_server import AsyncServer
from training.sync.parts.gradients import Bucket, Gradients
from training.sync.parts.push_pull import HEADER_BYTES, PARTED, Peer, connect, flatten, header
from training.sync.parts.sync_server import SyncServer

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
    """One of the two sides: the server or a worker."""

    def prepare(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, place: Place, meter: Meter
    ) -> nn.Module:
        """Returns the model; its parameters are views of flat buffers from now on."""
        options = self.options
        waits = options.mode == "sync"
        own = connect(place, options.server, TIMEOUT if waits else PATIENCE)
        ranks = place.world_size - options.dedicated
        self._side: SyncMethod
        if place.rank != options.server:
            divisor = ranks if waits else 1
            self._side = Worker(options, self.wire, own[0], model, divisor, meter)
        else:
            server = SyncServer if waits else AsyncServer
            self._side = server(options, self.wire, own, model, optimizer, ranks, meter)
        return model

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """As the side does."""
        return self._side.micro(last)

    def reduce(self, model: nn.Module) -> None:
        """Brings the gradients to the server, with `mode=sync` as their mean."""
        self._side.reduce(model)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """The server makes the step; workers pull the parameters."""
        self._side.step(optimizer)

    def settle(self, model: nn.Module) -> None:
        """Gives all ranks the parameters that the server holds once all have arrived."""
        self._side.settle(model)

    def serve(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """Serves the workers."""
        self._side.serve(model, optimizer, steps)

    def state(self) -> dict[str, Any]:
        """The state of the side."""
        return self._side.state()

    def load(self, state: dict[str, Any]) -> None:
        """Restores a state."""
        self._side.load(state)


class Worker(SyncMethod):
    """Pushes its gradients during backward, and pulls the parameters instead of making a step."""

    def __init__(
        self,
        options: SimpleNamespace,
        wire: torch.dtype,
        peer: Peer,
        model: nn.Module,
        ranks: int,
        meter: Meter,
    ) -> None:
        super().__init__(options, wire)
        self._stale = options.mode == "async"
        self._peer, self._meter = peer, meter
        self._parameters = flatten(model.parameters())
        self._gradients = Gradients(
            model, self._push, ranks, bucket_mb=options.bucket_mb, wire=wire
        )
        self._asked, self._answer = header(self._parameters), header(self._parameters)
        self._steps = 0
        self._works: list[distributed.Work] = []

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """In the last backward, gradients are pushed as they arrive."""
        return self._gradients.micro(last)

    def reduce(self, model: nn.Module) -> None:
        """Pushes the remaining gradients."""
        self._gradients.flush()
        self._wait()
        for bucket in self._gradients.buckets:
            bucket.reset()
        self._meter.add("bytes_sent", HEADER_BYTES + self._gradients.size)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Pulls the parameters, and with them the staleness that the server found."""
        self._pull()
        if self._stale:
            # On a GPU reading it waits for the step's end.
            self._meter.add("staleness", int(self._answer[1]))

    def settle(self, model: nn.Module) -> None:
        """Pulls the parameters that the server holds once all ranks have arrived."""
        if self._stale:
            self._ask(PARTED)
            self._pull()

    def state(self) -> dict[str, Any]:
        """The number of steps, and the version of the parameters."""
        return {"steps": self._steps, "version": int(self._answer[0])}

    def load(self, state: dict[str, Any]) -> None:
        """Restores a state."""
        self._steps, self._answer[0] = state["steps"], state["version"]

    def _push(self, bucket: Bucket) -> None:
        if bucket.index == 0:
            self._steps += 1
            self._ask(self._steps)
        self._works += self._peer.send([bucket.buffer])

    def _ask(self, step: int) -> None:
        self._asked.copy_(
            torch.stack((torch.tensor(step, device=self._answer.device), self._answer[0]))
        )
        self._works += self._peer.send([self._asked])

    def _pull(self) -> None:
        self._works += self._peer.receive([self._answer, *self._parameters])
        self._wait()

    def _wait(self) -> None:
        works, self._works = self._works, []
        with self._meter.waiting():
            self._peer.wait(works)
