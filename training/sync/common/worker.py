"""A rank that pushes its gradients to a parameter server and pulls the parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed import Work
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.gradients import Bucket
from training.sync.common.push_pull import HEADER_BYTES, PARTED, Peer, Side


class Worker(Side):
    """Pushes its gradients during backward, and pulls the parameters instead of making a step."""

    def __init__(
        self, method: SyncMethod, server: Peer, model: Module, meter: Meter, divisor: int
    ) -> None:
        super().__init__(method, model, meter, divisor, self._push)
        self._is_async = self.options.mode == "async"
        self._server = server
        self._question = self.header()
        self._answer = self.header()
        self._steps = 0
        self._works: list[Work] = []

    def reduce(self) -> None:
        """Push the remaining gradients."""
        self.gradients.flush()
        self._wait_for_works()
        for bucket in self.gradients.buckets:
            bucket.reset()
        self.meter.add("bytes_sent", HEADER_BYTES + self.gradients.size)

    def step(self, optimizer: Optimizer) -> None:
        """Pull the parameters, and with them the staleness that the server found."""
        self._pull()
        if self._is_async:
            # On a GPU reading it waits for the step's end.
            self.meter.add("staleness", int(self._answer[1]))

    def settle(self) -> None:
        """Pull the parameters that the server holds once all ranks have arrived."""
        if self._is_async:
            self._ask(PARTED)
            self._pull()

    def state(self) -> dict[str, Any]:
        """Return the number of steps, and the version of the parameters."""
        return {"steps": self._steps, "version": int(self._answer[0])}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._steps = state["steps"]
        self._answer[0] = state["version"]

    def _push(self, bucket: Bucket) -> None:
        if bucket.index == 0:
            self._steps += 1
            self._ask(self._steps)
        self._works += self._server.send([bucket.buffer])

    def _ask(self, step: int) -> None:
        # On a GPU the version stays there: to read it would wait for the step's end.
        step_tensor = torch.tensor(step, device=self._answer.device)
        self._question.copy_(torch.stack((step_tensor, self._answer[0])))
        self._works += self._server.send([self._question])

    def _pull(self) -> None:
        self._works += self._server.receive([self._answer, *self.parameters])
        self._wait_for_works()

    def _wait_for_works(self) -> None:
        works = self._works
        self._works = []
        self.wait(self._server, works)
