"""What a rank exchanges with others by functions of torch.distributed: how often, how much, and how
long it is blocked meanwhile."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any

REPORT_INTERVAL = 1.0
"""Seconds between two reports."""
MOST_PARTS = 4096
"""Entries of a list of tensors that are counted."""
DEEPEST = 3
"""Lists within lists that are looked into."""
WITHOUT_DATA = ("barrier", "monitored_barrier")
"""Functions that exchange nothing of a model."""


@dataclass
class Collectives:
    """What a rank's event `Collectives` reports; the names are its fields."""

    count: int = 0
    bytes: int = 0
    seconds: float = 0.0
    span: float = 0.0
    name: str = ""
    inside: bool = False


Call = tuple[float, int]
"""When a call began, and the bytes of its own arguments."""


class Exchange:
    """Counts the calls of functions of torch.distributed, and reports them now and then. Of nested
    ones, as `all_gather` within `all_gather_object`, the outermost is the call."""

    def __init__(
        self,
        report: Callable[[Collectives], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._report = report
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Forget all calls: this is another process."""
        self.calls_with_data = 0
        """Calls so far that may have exchanged parts of a model."""
        self.bytes = 0
        """Of all calls so far."""
        self.is_counting = True
        """False once the steps of the rank are seen: they say more, and to count a call takes
        microseconds."""
        self._calls_by_thread: dict[int, list[Call]] = {}
        self._unreported = Collectives()
        self._thread = 0
        """The thread that reports, as two at once would mix their lines: that of the first call."""
        self._reported_at = -math.inf
        self._due_at = -math.inf

    def begin(self, name: str, arguments: dict[str, Any]) -> None:
        """Note that a function begins. Without a name, it is only the wait for an earlier call."""
        if not self.is_counting:
            return
        calls = self._calls_by_thread.setdefault(get_ident(), [])
        payload = count_bytes(arguments.values()) if name else 0
        now = self._clock()
        is_outermost = not calls
        if is_outermost and name:
            self._add_call(name, payload)
        elif payload and not calls[0][1]:
            # One that takes objects sends them as tensors, by other functions.
            self._add_bytes(payload)
        calls.append((now, payload))
        if is_outermost and now >= self._due_at:
            self._tell_here(now, inside=True)

    def end(self, _: dict[str, Any] | None = None) -> None:
        """Note that the function ends that began last."""
        calls = self._calls_by_thread.get(get_ident())
        if not calls:
            return
        begin, _payload = calls.pop()
        if not calls:
            now = self._clock()
            self._unreported.seconds += now - begin
            if now >= self._due_at:
                self._tell_here(now, inside=False)

    def add(self, name: str, arguments: dict[str, Any]) -> None:
        """Note a call that does not wait."""
        if self.is_counting and not self._calls_by_thread.get(get_ident()):
            self._add_call(name, count_bytes(arguments.values()))
            now = self._clock()
            if now >= self._due_at:
                self._tell_here(now, inside=False)

    def report(self) -> None:
        """Report what has not been reported, as the program ends."""
        if self._unreported.count:
            self._tell(self._clock(), inside=False)

    def _add_call(self, name: str, payload: int) -> None:
        self._unreported.count += 1
        self._unreported.name = name
        self._add_bytes(payload)
        if name not in WITHOUT_DATA:
            self.calls_with_data += 1

    def _add_bytes(self, payload: int) -> None:
        self._unreported.bytes += payload
        self.bytes += payload

    def _tell_here(self, now: float, *, inside: bool) -> None:
        """Report, if this is the thread for it."""
        if not self._unreported.name:  # it waits for what is not watched
            return
        self._thread = self._thread or get_ident()
        if self._thread == get_ident():
            self._tell(now, inside=inside)

    def _tell(self, now: float, *, inside: bool) -> None:
        """Report. The first call is due at once: it may wait for a rank that never comes."""
        collectives = self._unreported
        self._unreported = Collectives(name=collectives.name)
        if math.isfinite(self._reported_at):
            collectives.span = now - self._reported_at
        collectives.inside = inside
        self._reported_at = now
        self._due_at = now + REPORT_INTERVAL
        self._report(collectives)


def count_bytes(values: Any, depth: int = 0) -> int:
    """Return the bytes of the tensors that a function gets: of the largest argument, which is what
    goes in or what comes out, whichever is more."""
    tensor_class = sys.modules["torch"].Tensor
    largest = 0
    try:
        for value in values:
            if isinstance(value, tensor_class):
                payload = value.numel() * value.element_size()
            elif isinstance(value, (list, tuple)):
                payload = _sum_bytes(value, depth)
            else:
                continue
            largest = max(largest, payload)
    except Exception:  # noqa: BLE001 - a tensor of the program's own may raise whatever it likes
        pass
    return largest


def _sum_bytes(values: Any, depth: int) -> int:
    """Return the bytes of all tensors in a list. One that begins with something else has none."""
    tensor_class = sys.modules["torch"].Tensor
    if not values or depth >= DEEPEST:
        return 0
    if not isinstance(values[0], (tensor_class, list, tuple)):
        return 0
    return sum(count_bytes((value,), depth + 1) for value in values[:MOST_PARTS])
