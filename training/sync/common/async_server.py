"""The rank that holds the parameters and applies each gradient as it arrives, with a thread per
worker."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ParameterList
from torch.optim import Optimizer

from training.meter import Meter
from training.sync import SyncMethod
from training.sync.common.push_pull import (
    PARTED,
    Peer,
    Side,
    copy_all,
    flatten_parameters,
    load_optimizer,
    optimizer_state,
    total_bytes,
)


class WorkerSeat:
    """A worker as the server sees it: its connection, the number of steps it was served, and the
    tensors that are received and sent."""

    def __init__(self, peer: Peer, server: AsyncServer) -> None:
        self.peer = peer
        self.steps = 0
        self.question = server.header()
        self.inbox = [torch.empty_like(bucket.buffer) for bucket in server.gradients.buckets]
        self.answer = [server.header(), *map(torch.empty_like, server.parameters)]

    def receive(self) -> bool:
        """Wait for the next push of the worker; False if it has parted."""
        self.peer.wait(self.peer.receive([self.question]))
        if self.question[0] == PARTED:
            return False
        self.peer.wait(self.peer.receive(self.inbox))
        return True

    def prepare_answer(self, parameters: Sequence[Tensor], version: int, staleness: int) -> None:
        """Copy what the worker pulls."""
        copy_all((torch.tensor([version, staleness]), *parameters), self.answer)

    def send(self) -> None:
        """Send the answer to the worker."""
        self.peer.wait(self.peer.send(self.answer))


class AsyncServer(Side):
    """Its threads run from the first forward, or `serve`, until every worker has parted, which
    workers do to settle.

    `_held` are the parameters that all ranks train, as flat buffers. A server that trains too does
    so on a copy, as the others change the held parameters during its backward. While no thread
    runs, the model has the held parameters.
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
        super().__init__(method, model, meter, 1)
        self._held_parameters = self.parameters
        self._held_gradients = self.gradients
        if not self.options.dedicated:
            # Copied together, so that the copied optimiser holds the copied parameters.
            parameters, optimizer = copy.deepcopy((list(model.parameters()), optimizer))
            self._held_parameters = flatten_parameters(parameters)
            self._held_gradients = self.bucket_gradients(
                ParameterList(parameters), lambda bucket: None, 1
            )
        # In the time of one step the ranks make that many updates, which together go about as far
        # as one step with the mean of their gradients, weight decay included.
        for group in optimizer.param_groups:
            group["lr"] /= ranks
        self._optimizer = optimizer
        self._worker_seats = [WorkerSeat(peer, self) for peer in peers]
        self._model_version = 0
        self._steps_due = 0  # of each worker, before `serve` returns
        self._change_condition = threading.Condition()  # guards the held parameters and all below
        self._threads: list[threading.Thread] = []
        self._held_version = 0
        self._present_workers = 0
        self._sent_bytes = 0
        self._worker_failure: Exception | None = None

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Serve the workers from the first forward on."""
        self._start_serving()
        return super().micro(last)

    def reduce(self) -> None:
        """Pack its own gradient."""
        self.gradients.flush()

    def step(self, optimizer: Optimizer) -> None:
        """Push its own gradient, and pull the parameters. The staleness is the number of updates
        that the others made between its last pull and this push."""
        own_buckets = self.gradients.buckets
        # Only the wait for the lock is waiting; the update under it is work.
        with self.meter.waiting():
            self._change_condition.acquire()
        try:
            self._raise_failure()
            staleness = self._apply_gradients(
                [bucket.buffer for bucket in own_buckets], self._model_version
            )
            self._pull_parameters()
            self.meter.add("staleness", staleness)
            self.meter.add("bytes_sent", self._sent_bytes)
            self._sent_bytes = 0
        finally:
            self._change_condition.release()
        for bucket in own_buckets:
            bucket.reset()

    def serve(self, steps: int) -> None:
        """Wait until each worker has made that many more steps."""
        self._start_serving()
        self._steps_due += steps
        self.meter.start()
        self._wait_until(lambda: all(seat.steps >= self._steps_due for seat in self._worker_seats))

    def settle(self) -> None:
        """Give all ranks the parameters that are held once all workers have parted."""
        self._start_serving()
        self._wait_until(lambda: not self._present_workers)
        for thread in self._threads:
            thread.join()
        self._threads = []
        # Only now are the parameters final: no worker is left that could push.
        self._pull_parameters()
        with self.meter.waiting():
            for seat in self._worker_seats:
                seat.prepare_answer(self._held_parameters, self._held_version, 0)
                seat.send()

    def state(self) -> dict[str, Any]:
        """Return the version, and the optimiser's state, unless rank 0 saves that anyway."""
        is_saved_anyway = self.options.dedicated and not self.options.server
        return {"version": self._held_version} | (
            {} if is_saved_anyway else optimizer_state(self._optimizer)
        )

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._held_version = state["version"]
        load_optimizer(self._optimizer, state)

    def _apply_gradients(self, gradients: Sequence[Tensor], version: int) -> int:
        """Make a step with one rank's gradients, computed from parameters of `version`. Return
        their staleness."""
        buckets = self._held_gradients.buckets
        copy_all(gradients, [bucket.buffer for bucket in buckets])
        for bucket in buckets:
            self._held_gradients.unpack(bucket)
        self._optimizer.step()
        self._held_version += 1
        return self._held_version - 1 - version

    def _pull_parameters(self) -> None:
        if not self.options.dedicated:
            copy_all(self._held_parameters, self.parameters)
        self._model_version = self._held_version

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        with self.meter.waiting(), self._change_condition:
            self._change_condition.wait_for(lambda: self._worker_failure or is_done())
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._worker_failure:
            raise self._worker_failure

    # Threads --------------------------------------------------------------------------------------

    def _start_serving(self) -> None:
        """Start the threads, unless they run already."""
        if self._threads:
            return
        if not self.options.dedicated:
            copy_all(self.parameters, self._held_parameters)
        self._model_version = self._held_version
        self._present_workers = len(self._worker_seats)
        for seat in self._worker_seats:
            thread = threading.Thread(target=self._serve_worker, args=(seat,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve_worker(self, seat: WorkerSeat) -> None:
        """Serve a worker until it parts. The main thread raises its failure."""
        failure = None
        try:
            while self._answer_push(seat):
                pass
        except Exception as error:  # noqa: BLE001
            failure = error
        with self._change_condition:
            # The first failure is the cause; connections that break after it only follow.
            self._worker_failure = self._worker_failure or failure
            self._present_workers -= 1
            self._change_condition.notify_all()

    def _answer_push(self, seat: WorkerSeat) -> bool:
        if not seat.receive():
            return False
        with self._change_condition:
            if self._worker_failure:
                return False
            staleness = self._apply_gradients(seat.inbox, int(seat.question[1]))
            seat.prepare_answer(self._held_parameters, self._held_version, staleness)
            self._sent_bytes += total_bytes(seat.answer)
        # Without the lock, so that a slow connection holds up no other worker.
        seat.send()
        with self._change_condition:
            seat.steps += 1
            self._change_condition.notify_all()
        return True
