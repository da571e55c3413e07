"""The bytes that a rank sends to synchronise `size` bytes among `ranks`: one formula per pattern of
traffic.

Standard library only: the launcher says it before the start.
"""

from __future__ import annotations


def ring(size: int, ranks: int) -> int:
    """An all-reduce as a ring, such as Gloo's: scatter-reduce, then all-gather, 2 (N-1)/N S on
    every rank."""
    return 2 * (ranks - 1) * size // ranks


def star(size: int, ranks: int, root: bool) -> int:
    """All ranks send to a root and receive from it: S, and (N-1) S on the root."""
    return size * (ranks - 1 if root else 1) if ranks > 1 else 0


def hierarchy(size: int, hosts: int, leader: bool) -> int:
    """A ring of the hosts' leaders. Traffic inside a host does not count."""
    return ring(size, hosts) if leader else 0
