"""What a case may cost: CPU time and memory, whatever it was given."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.hostile.launcher import MIB, peak

SECONDS = 2.0
"""CPU seconds that this process may spend on one record, or on one way to read a folder."""
GROWTH = 400 * MIB
"""Bytes by which this process may grow within one case."""
PATIENCE = 120.0
"""Seconds of a wall clock after which something is waited for that does not come. The machine may
have much else to do."""
ADDRESSES = 4096 * MIB
"""Bytes of addresses beyond those in use: an allocation beyond fails at once, before this machine
has none left."""


class TooSlow(BaseException):
    """A step took more than its CPU time. No handler of the product may take it for its own."""


class TooLarge(AssertionError):
    """A case took more than its memory."""


class Budget:
    """Watches this process while cases run, see `watched`."""

    def __init__(self, seconds: float, patience: float) -> None:
        self._seconds, self._patience = seconds, patience

    def renew(self) -> None:
        """Give the next step the whole time."""
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        if self._patience:
            signal.setitimer(signal.ITIMER_REAL, self._patience)

    def stop(self) -> None:
        """Let time pass: what follows is the harness's own work."""
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        if self._patience:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    @contextmanager
    def memory(self) -> Iterator[None]:
        """Check by how much the process has grown at the most. Raises: TooLarge."""
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what there is
        before = peak()
        yield
        growth = peak() - before
        if growth > GROWTH:
            raise TooLarge(f"the process has grown by {growth / MIB:.0f} MiB")


@contextmanager
def watched(seconds: float = SECONDS, patience: float = PATIENCE) -> Iterator[Budget]:
    """Set the limits of this process, and take them back. Without `patience`, somebody else sees
    to it that nothing is waited for without an end."""
    budget = Budget(seconds, patience)
    numbers = (signal.SIGPROF, signal.SIGALRM) if patience else (signal.SIGPROF,)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_addresses() + ADDRESSES, limits[1]))
    try:
        yield budget
    finally:
        budget.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _interrupt(number: int, frame: FrameType | None) -> None:
    is_cpu = number == signal.SIGPROF
    raise TooSlow("it took more than its CPU time" if is_cpu else "it waits for ever")


def _addresses() -> int:
    """Bytes of addresses that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
