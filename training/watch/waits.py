"""Waits for other ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

COLLECTIVES = (
    *("all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "barrier", "monitored_barrier"),
    *("all_gather", "all_gather_into_tensor", "all_gather_coalesced", "_all_gather_base"),
    *("all_gather_single", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor"),
    *("reduce_scatter_single", "_reduce_scatter_base", "all_to_all", "all_to_all_single"),
    *("gather_single", "gather_into_tensor", "send", "recv"),
    *("all_gather_object", "gather_object", "scatter_object_list", "broadcast_object_list"),
    *("send_object_list", "recv_object_list"),
)
"""Functions of torch.distributed that wait for other ranks, where their torch has them."""
TRANSFERS = ("isend", "irecv")
"""Those that do not wait."""
REMOTE_CALLS = ("rpc_sync", "rpc_async", "remote")
"""Functions of torch.distributed.rpc; only the first waits, and what the others return does."""


class WaitingMethod:
    """A method of a class in C, as an attribute of it. It tells when a call begins and ends, and
    has no frame meanwhile: `begin` is called as the method is looked up, `end` as the method so
    found is dropped, which is right after its call."""

    def __init__(self, method: Any, begin: Callable[[], None], end: Callable[[], None]) -> None:
        class Call(functools.partial):  # type: ignore[type-arg]
            def __del__(self) -> None:
                end()

        self._method = method
        self._begin = begin
        self._call = Call

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._method
        self._begin()
        return self._call(self._method, instance)
