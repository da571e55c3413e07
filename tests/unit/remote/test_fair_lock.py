"""The lock that no thread takes twice while another one waits."""

from __future__ import annotations

import threading
from contextlib import suppress

from remote.fair_lock import FairLock
from tests.kit.wait import wait


def test_who_lets_go_waits_behind_those_who_have_waited() -> None:
    lock, order = FairLock(), list[str]()

    def take() -> None:
        with lock:
            order.append("waiting")

    with lock:
        other = threading.Thread(target=take)
        other.start()
        wait(lock._next.locked, "the other thread waits")
    with lock:
        order.append("again")
    other.join()
    assert order == ["waiting", "again"]


def test_an_error_lets_go() -> None:
    lock = FairLock()
    for _ in range(2):
        with suppress(ValueError), lock:
            raise ValueError
    assert not lock._lock.locked()
