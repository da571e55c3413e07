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
        super().__init__(method, model, meter, divisor, self._push_bucket)
        self._is_async = self.options.mode == "async"
        self._server = server
        self._sent_header = self.header()
        self._received_header = self.header()
        self._step_count = 0
        self._pending_works: list[Work] = []

    def reduce(self) -> None:
        """Push the remaining gradients."""
        self.gradients.flush()
        self._wait_for_works()
        for bucket in self.gradients.buckets:
            bucket.reset()
        self.meter.add("bytes_sent", HEADER_BYTES + self.gradients.size)

    def step(self, optimizer: Optimizer) -> None:
        """Pull the parameters, and with them the staleness that the server found."""
        self._pull_parameters()
        if self._is_async:
            # On a GPU reading it waits for the step's end.
            self.meter.add("staleness", int(self._received_header[1]))

    def settle(self) -> None:
        """Pull the parameters that the server holds once all ranks have arrived."""
        if self._is_async:
            self._send_header(PARTED)
            self._pull_parameters()

    def state(self) -> dict[str, Any]:
        """Return the number of steps, and the version of the parameters."""
        return {"steps": self._step_count, "version": int(self._received_header[0])}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._step_count = state["steps"]
        self._received_header[0] = state["version"]

    def _push_bucket(self, bucket: Bucket) -> None:
        # The header goes first: it says to which step and version the buckets belong.
        if bucket.index == 0:
            self._step_count += 1
            self._send_header(self._step_count)
        self._pending_works += self._server.send([bucket.buffer])

    def _send_header(self, step: int) -> None:
        # On a GPU the version stays there: to read it would wait for the step's end.
        step_tensor = torch.tensor(step, device=self._received_header.device)
        self._sent_header.copy_(torch.stack((step_tensor, self._received_header[0])))
        self._pending_works += self._server.send([self._sent_header])

    def _pull_parameters(self) -> None:
        self._pending_works += self._server.receive([self._received_header, *self.parameters])
        self._wait_for_works()

    def _wait_for_works(self) -> None:
        pending_works = self._pending_works
        self._pending_works = []
        self.wait(self._server, pending_works)
