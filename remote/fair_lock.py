"""A lock whose holder cannot take it again while another thread waits for it."""

from __future__ import annotations

import threading
from types import TracebackType


class FairLock:
    """For `with`. Python's own lock goes to whom is quickest: a thread that lets go of it only for
    a moment, as between two batches of records, could keep a frame waiting for many of them."""

    def __init__(self) -> None:
        self._next, self._lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:  # whoever waits holds this, so nobody overtakes it
            self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._lock.release()
