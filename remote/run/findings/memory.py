"""Judges whether memory was the reason for which a rank was killed. Pure."""

from __future__ import annotations

from msgspec import Struct

from remote.format import size
from remote.run.run_state import RunState

NEARLY_FULL = 0.8
"""The share of a host's memory from which on memory may have been the reason."""
KILL = "SIGKILL"
LINUX = "Linux"


class MemoryAtDeath(Struct, frozen=True):
    """The memory that was in use as a rank was killed by nobody knows whom."""

    of_rank: int
    """Bytes."""
    of_host: int
    """Bytes in use on its whole host."""
    total: int
    """Bytes that the host has."""
    counts_kills: bool
    """The agent there would have seen a kill for want of memory, and has not."""

    @property
    def is_reason(self) -> bool:
        """Return True if the host was nearly full."""
        return max(self.of_rank, self.of_host) > NEARLY_FULL * self.total

    @property
    def text(self) -> str:
        """In words, such as "not memory: 438 MiB of 23 GiB; no OOM kill on the host"."""
        kills_text = "; no OOM kill on the host" if self.counts_kills else ""
        if self.is_reason:
            used_text = f"{size(self.of_host)} of {size(self.total)} were in use"
            return f"perhaps memory: {used_text}{kills_text}"
        return f"not memory: {size(self.of_rank)} of {size(self.total)}{kills_text}"


def find_memory_at_death(run: RunState) -> MemoryAtDeath | None:
    """Return the memory of the rank that a run failed of, if it was killed and neither the kernel
    nor its agent has said why; None if that is not known."""
    rank = run.rank(run.cause.rank) if run.cause else None
    if rank is None or rank.exited is None or not rank.memory:
        return None
    if rank.exited.signal != KILL or rank.exited.out_of_memory or rank.exited.stopped:
        return None
    host = run.hosts[rank.host]
    total = host.sample.memory_total or (host.hello.memory if host.hello else 0)
    if not total:
        return None
    is_linux = host.hello is not None and host.hello.platform.startswith(LINUX)
    return MemoryAtDeath(rank.memory, host.sample.memory_used, total, is_linux)
