"""What keeps a dashboard quick while other threads take in records: the lock of what it shows, and
the gate at which they wait while it draws."""

from __future__ import annotations

import threading
import time
from types import TracebackType

LONGEST_FRAME = 0.1
"""Seconds for which a frame keeps others waiting at the most: a screen may end undrawn."""


class FrameGate:
    """Threads that take in records wait here while another one makes and draws a frame.

    Otherwise both would take turns at the interpreter, many times a frame, so that it would take
    twice as long, and the records no less.
    """

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._is_open.set()
        self._opens_at = 0.0
        self._drawer = 0

    def close(self) -> None:
        """Begin a frame, which this thread draws."""
        self._drawer = threading.get_ident()
        self._opens_at = time.monotonic() + LONGEST_FRAME
        self._is_open.clear()

    def open(self) -> None:
        """End it."""
        self._is_open.set()

    def wait(self) -> None:
        """Wait until no other thread draws a frame."""
        if not self._is_open.is_set() and threading.get_ident() != self._drawer:
            self._is_open.wait(self._opens_at - time.monotonic())


frame_gate = FrameGate()
"""That of this process, which has one terminal."""


class FairLock:
    """For `with`: a lock whose holder cannot take it again while another thread waits for it, nor
    any other thread while one draws a frame.

    Python's own lock goes to whom is quickest: a thread that lets go of it only for a moment, as
    between two batches of records, could keep a frame waiting for many of them.
    """

    def __init__(self) -> None:
        self._next, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        frame_gate.wait()
        with self._next:  # whoever waits holds this, so nobody overtakes it
            self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._lock.release()
