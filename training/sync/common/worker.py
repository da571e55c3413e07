"""A rank that pushes its gradients to a parameter server and pulls the parameters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed import Work
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.gradients import Bucket, Gradients
from training.sync.common.push_pull import (
    HEADER_BYTES,
    PARTED,
    Peer,
    empty_header,
    flatten_parameters,
)


class Worker(SyncMethod):
    """Pushes its gradients during backward, and pulls the parameters instead of making a step."""

    def __init__(
        self,
        options: SimpleNamespace,
        gradient_dtype: torch.dtype,
        peer: Peer,
        model: Module,
        ranks: int,
        meter: Meter,
    ) -> None:
        super().__init__(options, gradient_dtype)
        self._stale = options.mode == "async"
        self._peer = peer
        self._meter = meter
        self._parameters = flatten_parameters(model.parameters())
        self._gradients = Gradients(
            model, self._push, ranks, bucket_mb=options.bucket_mb, gradient_dtype=gradient_dtype
        )
        self._asked, self._answer = empty_header(self._parameters), empty_header(self._parameters)
        self._steps = 0
        self._works: list[Work] = []

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Push gradients as they arrive, in the last backward."""
        return self._gradients.micro(last)

    def reduce(self, model: Module) -> None:
        """Push the remaining gradients."""
        self._gradients.flush()
        self._wait()
        for bucket in self._gradients.buckets:
            bucket.reset()
        self._meter.add("bytes_sent", HEADER_BYTES + self._gradients.size)

    def step(self, optimizer: Optimizer) -> None:
        """Pull the parameters, and with them the staleness that the server found."""
        self._pull()
        if self._stale:
            # On a GPU reading it waits for the step's end.
            self._meter.add("staleness", int(self._answer[1]))

    def settle(self, model: Module) -> None:
        """Pull the parameters that the server holds once all ranks have arrived."""
        if self._stale:
            self._ask(PARTED)
            self._pull()

    def state(self) -> dict[str, Any]:
        """Return the number of steps, and the version of the parameters."""
        return {"steps": self._steps, "version": int(self._answer[0])}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
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
        works = self._works
        self._works = []
        with self._meter.waiting():
            self._peer.wait(works)
