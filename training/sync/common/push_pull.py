"""The protocol between a parameter server and its workers, and the flat buffers in which parameters
travel.

A worker pushes a header (step, version of its parameters) and its gradients, and pulls a header
(version, staleness) and the parameters. Each pair of server and worker has a process group of its
own, so several threads may communicate at once. Every receive names its sender: a receive from any
rank would not notice that one died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import ProcessGroup, Work
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from training.meter import Meter
from training.place import Place
from training.rendezvous import new_group
from training.sync import SyncMethod
from training.sync.common.gradients import Bucket, Gradients, flat_views

PARTED = -1
"""The step in the header of a worker that pushes no gradient and waits for the final parameters."""
HEADER_BYTES = 2 * 8


class PeerError(ConnectionError):
    """The connection to a rank failed; the text names the rank."""


class Peer:
    """The rank at the other end of a connection between the server and a worker."""

    def __init__(self, rank: int, role: str, group: ProcessGroup) -> None:
        self._rank = rank
        self._role = role
        self._group = group

    def send(self, tensors: Iterable[Tensor]) -> list[Work]:
        """Start to send. The tensors must not change until the caller has waited for each work,
        once."""
        return [
            _require_work(distributed.isend(tensor, self._rank, self._group)) for tensor in tensors
        ]

    def receive(self, tensors: Iterable[Tensor]) -> list[Work]:
        """Start to receive what the peer sends, in its order."""
        return [
            _require_work(distributed.irecv(tensor, self._rank, self._group)) for tensor in tensors
        ]

    def wait(self, works: Iterable[Work]) -> None:
        """Wait for all. Raises: PeerError."""
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise PeerError(f"{self._role} (rank {self._rank}): {error}") from error


def connect_peers(place: Place, server_rank: int, timeout: timedelta) -> list[Peer]:
    """Connect the server and its workers. On the server, return the connections to the workers in
    the order of their ranks; on a worker, the one to the server. Called by all ranks.

    `timeout`: how long a peer may be silent.
    """
    peers = []
    for worker_rank in range(place.world_size):
        if worker_rank == server_rank:
            continue
        # All ranks make all groups, in one order, also those that they are not in.
        pair_group = new_group([server_rank, worker_rank], timeout)
        if pair_group is None:  # this rank is neither
            continue
        is_server = place.rank == server_rank
        peers.append(
            Peer(worker_rank, "worker", pair_group)
            if is_server
            else Peer(server_rank, "parameter server", pair_group)
        )
    return peers


class Side(SyncMethod):
    """A rank of a parameter server: its gradients as buckets, and its parameters, which become
    views of flat buffers."""

    def __init__(
        self,
        method: SyncMethod,
        model: Module,
        meter: Meter,
        divisor: int,
        launch: Callable[[Bucket], None] = lambda bucket: None,
    ) -> None:
        """`launch` sends a bucket of gradients, which were divided by `divisor`; without it they
        stay here."""
        super().__init__(method.options, method.gradient_dtype)
        self.meter = meter
        self.parameters = flatten_parameters(model.parameters())
        self.gradients = self.bucket_gradients(model, launch, divisor)

    def bucket_gradients(
        self, model: Module, launch: Callable[[Bucket], None], divisor: int
    ) -> Gradients:
        """Make buckets of the sizes that all sides have."""
        return Gradients(
            model,
            launch,
            divisor,
            bucket_mb=self.options.bucket_mb,
            gradient_dtype=self.gradient_dtype,
        )

    def micro(self, last: bool) -> AbstractContextManager[None]:
        """Pack gradients as they arrive, in the last backward."""
        return self.gradients.micro(last)

    def header(self) -> Tensor:
        """Make an empty header, (2,) int64, where the parameters are."""
        return torch.zeros(2, dtype=torch.int64, device=self.parameters[0].device)

    def wait(self, peer: Peer, works: Iterable[Work]) -> None:
        """Wait for all, and count it as waiting. Raises: PeerError."""
        with self.meter.waiting():
            peer.wait(works)


def total_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of all tensors."""
    return sum(tensor.nbytes for tensor in tensors)


def copy_all(source: Iterable[Tensor], counterparts: Iterable[Tensor]) -> None:
    """Copy each tensor into its counterpart."""
    for tensor, counterpart in zip(source, counterparts, strict=True):
        counterpart.copy_(tensor)


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """Return the state of an optimiser, such as momentum, without its settings."""
    return {"optimizer": optimizer.state_dict()["state"]}


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Restore an `optimizer_state`, if the state has one."""
    if "optimizer" in state:
        # The learning rate and the other settings stay those of this job.
        param_groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state["optimizer"], "param_groups": param_groups})


def flatten_parameters(parameters: Iterable[Parameter]) -> list[Tensor]:
    """Move the parameters that need a gradient into one flat buffer (elements,) per type; they
    become views of it.

    They keep their shapes and, where these have no gaps, their strides (such as channels_last).
    """
    parameters_by_kind: dict[tuple[torch.dtype, torch.device], list[Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            parameters_by_kind.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    buffers: list[Tensor] = []
    for (dtype, _), same_kind in parameters_by_kind.items():
        buffer, views, _ = flat_views(same_kind, dtype)
        for parameter, view in zip(same_kind, views, strict=True):
            parameter.data = view.copy_(parameter.detach())
        buffers.append(buffer)
    return buffers


def _require_work(work: Work | None) -> Work:
    assert work is not None  # None only outside the group
    return work
