"""The rank that holds the parameters and applies the optimiser, in rounds: one gradient of every
worker at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.parts.gradients import Gradients
from training.sync.parts.push_pull import (
    HEADER_BYTES,
    Line,
    flatten,
    header,
    load_optimizer,
    nbytes,
    optimizer_state,
    stay,
)


class SyncServer(SyncMethod):
    """Takes all gradients of a step, makes the step with their mean, and gives the parameters to
    all.

    What it receives is added in the order of the ranks, so that a run repeats bit by bit.
    """

    def __init__(
        self,
        options: SimpleNamespace,
        wire: torch.dtype,
        lines: list[Line],
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        ranks: int,
        meter: Meter,
    ) -> None:
        super().__init__(options, wire)
        self._lines, self._optimizer, self._meter = lines, optimizer, meter
        self._parameters = flatten(model.parameters())
        self._gradients = Gradients(model, stay, ranks, bucket_mb=options.bucket_mb, wire=wire)
        buckets = self._gradients.buckets
        self._inboxes = [
            [header(self._parameters), *(torch.empty_like(b.buffer) for b in buckets)]
            for _ in lines
        ]
        self._answer = header(self._parameters)

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Before the last backward: what the workers push may come meanwhile."""
        if last:
            self._expect()
        return self._gradients.micro(last)

    def reduce(self, model: nn.Module) -> None:
        """Adds the workers' gradients to its own."""
        self._gradients.flush()
        self._gather()

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the step, and lets the workers have what came of it."""
        optimizer.step()
        self._answer[0] += 1
        sent = [(line, line.send([self._answer, *self._parameters])) for line in self._lines]
        with self._meter.waiting():
            for line, works in sent:
                line.wait(works)
        each = HEADER_BYTES + nbytes(self._parameters)
        self._meter.add("bytes_sent", len(self._lines) * each)

    def serve(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        """So many rounds without a gradient of its own."""
        for _ in range(steps):
            self._meter.start()
            self._expect()
            for bucket in self._gradients.buckets:
                bucket.buffer.zero_()
            self._gather()
            self.step(optimizer)

    def state(self) -> dict[str, Any]:
        """The version, and the optimiser where it is not rank 0's, which is kept anyway."""
        return {"version": int(self._answer[0])} | (
            optimizer_state(self._optimizer) if self.options.server else {}
        )

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from there."""
        self._answer[0] = state["version"]
        load_optimizer(self._optimizer, state)

    def _expect(self) -> None:
        self._works = [
            line.receive(inbox) for line, inbox in zip(self._lines, self._inboxes, strict=True)
        ]

    def _gather(self) -> None:
        for number, bucket in enumerate(self._gradients.buckets, 1):
            for line, works, inbox in zip(self._lines, self._works, self._inboxes, strict=True):
                with self._meter.waiting():
                    line.wait(works[:2] if number == 1 else works[number : number + 1])
                bucket.buffer.add_(inbox[number])
            self._gradients.unpack(bucket)
