"""The rank that holds the parameters and applies the optimiser in rounds, with one gradient of each
worker."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.push_pull import (
    HEADER_BYTES,
    Peer,
    Side,
    load_optimizer,
    optimizer_state,
    total_bytes,
)


class SyncServer(Side):
    """Receives all gradients of a step, makes the step with their mean, and sends the parameters.

    Gradients are added in the order of the ranks, so a run can be repeated bit by bit.
    """

    def __init__(
        self,
        method: SyncMethod,
        peers: list[Peer],
        model: Module,
        optimizer: Optimizer,
        meter: Meter,
        ranks: int,
    ) -> None:
        super().__init__(method, model, meter, ranks)
        self._optimizer = optimizer
        self._answer = self.header()
        buffers = [bucket.buffer for bucket in self.gradients.buckets]
        self._worker_inboxes = [
            (peer, [self.header(), *map(torch.empty_like, buffers)]) for peer in peers
        ]

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Start to receive from the workers before the last backward."""
        if last:
            self._start_receiving()
        return super().micro(last)

    def reduce(self) -> None:
        """Add the workers' gradients to its own."""
        self.gradients.flush()
        self._add_gradients()

    def step(self, optimizer: Optimizer) -> None:
        """Make the step and send the parameters to the workers."""
        optimizer.step()
        self._answer[0] += 1
        answer_tensors = [self._answer, *self.parameters]
        # All sends start before the first wait, so that no worker waits for a slower one.
        pending_sends = [(peer, peer.send(answer_tensors)) for peer, _ in self._worker_inboxes]
        for peer, works in pending_sends:
            self.wait(peer, works)
        self.meter.add(
            "bytes_sent", len(pending_sends) * (HEADER_BYTES + total_bytes(self.parameters))
        )

    def serve(self, steps: int) -> None:
        """Make that many rounds without a gradient of its own."""
        for _ in range(steps):
            self.meter.start()
            self._start_receiving()
            for bucket in self.gradients.buckets:
                # It holds the mean of the round before.
                bucket.buffer.zero_()
            self._add_gradients()
            self.step(self._optimizer)

    def state(self) -> dict[str, Any]:
        """Return the version, and the optimiser's state, unless rank 0 saves that anyway."""
        saved_optimizer = optimizer_state(self._optimizer) if self.options.server else {}
        return {"version": int(self._answer[0])} | saved_optimizer

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._answer[0] = state["version"]
        load_optimizer(self._optimizer, state)

    def _start_receiving(self) -> None:
        self._pending_pushes = [
            (peer, inbox, peer.receive(inbox)) for peer, inbox in self._worker_inboxes
        ]

    def _add_gradients(self) -> None:
        for number, bucket in enumerate(self.gradients.buckets, 1):
            for peer, inbox, works in self._pending_pushes:
                # The header comes before the first bucket.
                self.wait(peer, works[:2] if number == 1 else [works[number]])
                bucket.buffer.add_(inbox[number])
            self.gradients.unpack(bucket)
