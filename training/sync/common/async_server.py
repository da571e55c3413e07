"""The rank that holds the parameters and applies each gradient as it arrives, with a thread per
worker."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.gradients import Gradients
from training.sync.common.push_pull import (
    HEADER_BYTES,
    PARTED,
    Peer,
    copy_all,
    empty_header,
    flatten_parameters,
    keep_local,
    load_optimizer,
    optimizer_state,
    total_bytes,
)


class HeldParameters:
    """The parameters that all ranks train, as flat `buffers`; `version` counts the updates. Callers
    hold the server's lock.

    Each update uses the learning rate divided by the number of ranks that train. In the time of one
    step they make that many updates, which together go about as far as one step with the mean of
    their gradients, weight decay included.
    """

    def __init__(
        self,
        parameters: list[Parameter],
        optimizer: Optimizer,
        ranks: int,
        **layout: Any,
    ) -> None:
        self.optimizer = optimizer
        self._ranks = ranks
        self.buffers = flatten_parameters(parameters)
        self.gradients = Gradients(nn.ParameterList(parameters), keep_local, 1, **layout)
        self.version = 0

    def apply(self, gradients: Sequence[Tensor], version: int) -> int:
        """Make a step with one rank's gradients, computed from parameters of `version`: their
        staleness."""
        for bucket, buffer in zip(self.gradients.buckets, gradients, strict=True):
            bucket.buffer.copy_(buffer)
            self.gradients.unpack(bucket)
        with divided_learning_rate(self.optimizer, self._ranks):
            self.optimizer.step()
        self.version += 1
        return self.version - 1 - version


class WorkerSeat:
    """A worker as the server sees it: its connection, the number of steps it was served, and the
    tensors that are received and sent."""

    def __init__(self, peer: Peer, held: HeldParameters) -> None:
        self.peer = peer
        self.steps = 0
        self.asked, self.answer = empty_header(held.buffers), empty_header(held.buffers)
        self.inbox = [torch.empty_like(bucket.buffer) for bucket in held.gradients.buckets]
        self.outbox = [torch.empty_like(buffer) for buffer in held.buffers]

    def receive(self) -> bool:
        """Wait for the next push of the worker; False if it has parted."""
        self.peer.wait(self.peer.receive([self.asked]))
        if self.asked[0] == PARTED:
            return False
        self.peer.wait(self.peer.receive(self.inbox))
        return True

    def answer_with(self, held: HeldParameters) -> None:
        """Apply the pushed gradient and prepare the answer: the parameters and the staleness."""
        staleness = held.apply(self.inbox, int(self.asked[1]))
        self.answer.copy_(torch.tensor([held.version, staleness]))
        copy_all(held.buffers, self.outbox)

    def send(self) -> None:
        """Send the answer to the worker."""
        self.peer.wait(self.peer.send([self.answer, *self.outbox]))


class AsyncServer(SyncMethod):
    """Its threads run from the first forward, or `serve`, until every worker has parted, which
    workers do to settle.

    A server that trains too does so on a copy, as the others change the held parameters during its
    backward. While no thread runs, the model has the held parameters.
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
        self._meter = meter
        layout = {"bucket_mb": options.bucket_mb, "gradient_dtype": gradient_dtype}
        self._gradients = Gradients(model, keep_local, 1, **layout)
        self._model = flatten_parameters(model.parameters())
        theirs = list(model.parameters()), optimizer
        self._held = HeldParameters(
            *(theirs if options.dedicated else copy.deepcopy(theirs)), ranks, **layout
        )
        self._seats = [WorkerSeat(peer, self._held) for peer in peers]
        self._version = 0  # of the model
        self._due = 0  # steps of each worker before `serve` returns
        self._changed = threading.Condition()  # guards the held parameters and all below
        self._threads: list[threading.Thread] = []
        self._present = 0
        self._sent = 0
        self._failure: Exception | None = None

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Serve the workers from the first forward on."""
        self._open()
        return self._gradients.micro(last)

    def reduce(self, model: Module) -> None:
        """Pack its own gradient."""
        self._gradients.flush()

    def step(self, optimizer: Optimizer) -> None:
        """Push its own gradient, and pull the parameters. The staleness is the number of updates
        that the others made between its last pull and this push."""
        with self._meter.waiting():
            self._changed.acquire()
        try:
            self._check()
            own = [bucket.buffer for bucket in self._gradients.buckets]
            self._meter.add("staleness", self._held.apply(own, self._version))
            self._pull()
            self._meter.add("bytes_sent", self._sent)
            self._sent = 0
        finally:
            self._changed.release()
        for bucket in self._gradients.buckets:
            bucket.reset()

    def serve(self, model: Module, optimizer: Optimizer, steps: int) -> None:
        """Wait until each worker has made that many more steps."""
        self._open()
        self._due += steps
        self._meter.start()
        self._await(lambda: all(seat.steps >= self._due for seat in self._seats))

    def settle(self, model: Module) -> None:
        """Give all ranks the parameters that are held once all workers have parted."""
        self._open()
        self._await(lambda: not self._present)
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._pull()
        with self._meter.waiting():
            for seat in self._seats:
                seat.answer.copy_(torch.tensor([self._version, 0]))
                copy_all(self._held.buffers, seat.outbox)
                seat.send()

    def state(self) -> dict[str, Any]:
        """Return the version, and the optimiser's state, unless rank 0 saves that anyway."""
        keeps = self.options.server or not self.options.dedicated
        return {"version": self._held.version} | (
            optimizer_state(self._held.optimizer) if keeps else {}
        )

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._held.version = state["version"]
        load_optimizer(self._held.optimizer, state)

    def _pull(self) -> None:
        if not self.options.dedicated:
            copy_all(self._held.buffers, self._model)
        self._version = self._held.version

    def _await(self, condition: Callable[[], bool]) -> None:
        with self._meter.waiting(), self._changed:
            self._changed.wait_for(lambda: self._failure or condition())
            self._check()

    def _check(self) -> None:
        if self._failure:
            raise self._failure

    # Threads --------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Start the threads, unless they run already."""
        if self._threads:
            return
        if not self.options.dedicated:
            copy_all(self._model, self._held.buffers)
        self._version, self._present = self._held.version, len(self._seats)
        self._threads = [
            threading.Thread(target=self._attend, args=(seat,), daemon=True) for seat in self._seats
        ]
        for thread in self._threads:
            thread.start()

    def _attend(self, seat: WorkerSeat) -> None:
        """Serve a worker until it parts. The main thread raises its failure."""
        failure = None
        try:
            while self._exchange(seat):
                pass
        except Exception as error:  # noqa: BLE001
            failure = error
        with self._changed:
            self._failure = self._failure or failure
            self._present -= 1
            self._changed.notify_all()

    def _exchange(self, seat: WorkerSeat) -> bool:
        if not seat.receive():
            return False
        with self._changed:
            if self._failure:
                return False
            seat.answer_with(self._held)
            self._sent += HEADER_BYTES + total_bytes(seat.outbox)
        seat.send()
        with self._changed:
            seat.steps += 1
            self._changed.notify_all()
        return True


@contextmanager
def divided_learning_rate(optimizer: Optimizer, times: int) -> Iterator[None]:
    """Divide the learning rates by `times` for a while."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] / times
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
