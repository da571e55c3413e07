"""What a parameter server and its workers say to each other, and the flat buffers in which
parameters travel.

A worker pushes a header (step, version that it holds) and its gradients, and pulls a header
(version, staleness) and the parameters. Each pair of server and worker has a process group of its
own, so several threads may talk at once, and every receive names whom it hears: one from anybody
would not notice a death.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn

from training.place import Place
from training.rendezvous import new_group
from training.sync.parts.gradients import Bucket, laid_out

PARTED = -1
"""The step in the header of a worker that waits for the last parameters and pushes no gradient."""
HEADER_BYTES = 2 * 8


class PeerError(ConnectionError):
    """The talk with a rank broke off; the text names it."""


class Line:
    """The line to a `peer`, on the server or on a worker."""

    def __init__(self, peer: int, who: str, group: distributed.ProcessGroup) -> None:
        self.peer, self._who, self._group = peer, who, group

    def send(self, tensors: Iterable[torch.Tensor]) -> list[distributed.Work]:
        """Begins to send; the tensors must stay as they are until each work has been waited for,
        once."""
        return [_work(distributed.isend(tensor, self.peer, self._group)) for tensor in tensors]

    def receive(self, tensors: Iterable[torch.Tensor]) -> list[distributed.Work]:
        """Begins to receive what the peer sends, in its order."""
        return [_work(distributed.irecv(tensor, self.peer, self._group)) for tensor in tensors]

    def wait(self, works: Iterable[distributed.Work]) -> None:
        """Waits for each. Raises: PeerError."""
        try:
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise PeerError(f"{self._who} (rank {self.peer}): {error}") from error


def lines(place: Place, server: int, patience: timedelta) -> list[Line]:
    """On the server the lines to its workers, by rank; on a worker the one to the server. Called by
    all ranks.

    `patience` is how long a peer may be silent.
    """
    made = []
    for worker in (rank for rank in range(place.world_size) if rank != server):
        group = new_group([server, worker], patience)
        if group:  # this rank is one of the two
            made.append(
                Line(worker, "worker", group)
                if place.rank == server
                else Line(server, "parameter server", group)
            )
    return made


def header(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """An empty header, (2,) int64, where the parameters are."""
    return torch.zeros(2, dtype=torch.int64, device=parameters[0].device)


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """The size of all."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def copy_all(source: Iterable[torch.Tensor], to: Iterable[torch.Tensor]) -> None:
    """Copies each tensor into the one in its place."""
    for one, other in zip(source, to, strict=True):
        other.copy_(one)


def stay(bucket: Bucket) -> None:
    """The `launch` of gradients that do not travel."""


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What an optimiser has gathered, such as momentum, but not its settings."""
    return {"optimizer": optimizer.state_dict()["state"]}


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Goes on from an `optimizer_state`, where there is one in the state."""
    if "optimizer" in state:
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state["optimizer"], "param_groups": groups})


def flatten(parameters: Iterable[nn.Parameter]) -> list[torch.Tensor]:
    """Moves the parameters that need a gradient into one flat buffer per type, (elements,), of
    which they are views then.

    They keep their shapes and, where these leave no gaps, their strides (such as channels_last).
    """
    kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    return [_moved(group) for group in kinds.values()]


def _moved(parameters: list[nn.Parameter]) -> torch.Tensor:
    buffer = torch.empty(
        sum(p.numel() for p in parameters), dtype=parameters[0].dtype, device=parameters[0].device
    )
    for parameter, part in zip(
        parameters, torch.split(buffer, [p.numel() for p in parameters]), strict=True
    ):
        parameter.data = laid_out(part, parameter).copy_(parameter.detach())
    return buffer


def _work(work: distributed.Work | None) -> distributed.Work:
    assert work is not None  # None only outside the group
    return work
