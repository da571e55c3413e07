"""The rank that holds the parameters and applies the optimiser in rounds, with one gradient of each
worker."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.gradients import Gradients
from training.sync.common.push_pull import (
    HEADER_BYTES,
    Peer,
    empty_header,
    flatten_parameters,
    keep_local,
    load_optimizer,
    optimizer_state,
    total_bytes,
)


class SyncServer(SyncMethod):
    """Receives all gradients of a step, makes the step with their mean, and sends the parameters.

    Gradients are added in the order of the ranks, so a run can be repeated bit by bit.
    """

    def __init__(
        self,
        options: SimpleNamespace,
        gradient_dtype: torch.dtype,
        peers: list[Peer],
        model: Module,
        optimizer: Optimizer,
        ranks: int,
        meter: Meter,
    ) -> None:
        super().__init__(options, gradient_dtype)
        self._peers = peers
        self._optimizer = optimizer
        self._meter = meter
        self._parameters = flatten_parameters(model.parameters())
        self._gradients = Gradients(
            model, keep_local, ranks, bucket_mb=options.bucket_mb, gradient_dtype=gradient_dtype
        )
        buckets = self._gradients.buckets
        self._inboxes = [
            [empty_header(self._parameters), *(torch.empty_like(b.buffer) for b in buckets)]
            for _ in peers
        ]
        self._answer = empty_header(self._parameters)

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Start to receive from the workers before the last backward."""
        if last:
            self._expect()
        return self._gradients.micro(last)

    def reduce(self, model: Module) -> None:
        """Add the workers' gradients to its own."""
        self._gradients.flush()
        self._gather()

    def step(self, optimizer: Optimizer) -> None:
        """Make the step and send the parameters to the workers."""
        optimizer.step()
        self._answer[0] += 1
        sent = [(peer, peer.send([self._answer, *self._parameters])) for peer in self._peers]
        with self._meter.waiting():
            for peer, works in sent:
                peer.wait(works)
        each = HEADER_BYTES + total_bytes(self._parameters)
        self._meter.add("bytes_sent", len(self._peers) * each)

    def serve(self, model: Module, optimizer: Optimizer, steps: int) -> None:
        """Make that many rounds without a gradient of its own."""
        for _ in range(steps):
            self._meter.start()
            self._expect()
            for bucket in self._gradients.buckets:
                bucket.buffer.zero_()
            self._gather()
            self.step(optimizer)

    def state(self) -> dict[str, Any]:
        """Return the version, and the optimiser's state, unless rank 0 saves that anyway."""
        return {"version": int(self._answer[0])} | (
            optimizer_state(self._optimizer) if self.options.server else {}
        )

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._answer[0] = state["version"]
        load_optimizer(self._optimizer, state)

    def _expect(self) -> None:
        self._works = [
            peer.receive(inbox) for peer, inbox in zip(self._peers, self._inboxes, strict=True)
        ]

    def _gather(self) -> None:
        for number, bucket in enumerate(self._gradients.buckets, 1):
            for peer, works, inbox in zip(self._peers, self._works, self._inboxes, strict=True):
                with self._meter.waiting():
                    peer.wait(works[:2] if number == 1 else works[number : number + 1])
                bucket.buffer.add_(inbox[number])
            self._gradients.unpack(bucket)
