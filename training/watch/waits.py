"""Waits for other ranks: the functions that wait, and for how long the computation does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .spans import Spans
from .steps import Steps

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


class WaitWatch:
    """Tells `steps` how long the computation waits for other ranks."""

    def __init__(self, steps: Steps, spans: Spans) -> None:
        self._steps = steps
        self._spans = spans
        self._has_stream = False
        """Another stream than that of the computation communicates, as with FSDP."""

    def begin(self, _: dict[str, Any] | None = None) -> None:
        """Note that a function begins which waits for other ranks."""
        if self._steps.clock.is_beside():
            self._has_stream = True
            self._spans.skip()
        else:
            self._spans.begin()

    def begin_for_stream(self, variables: dict[str, Any]) -> None:
        """Note that a stream begins to wait for another one. It counts if it is the stream of the
        computation, which waits for one on which ranks communicate."""
        if self._has_stream and self._steps.clock.is_computing(variables["self"]):
            self._spans.begin()
        else:
            self._spans.skip()

    def end(self, _: dict[str, Any] | None = None) -> None:
        """Note that the function ends that began last."""
        wait_begin = self._spans.end()
        if wait_begin is not None:
            self._steps.waited(wait_begin)


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
