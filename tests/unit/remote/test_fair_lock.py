"""The lock that no thread takes twice while another one waits."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from remote import fair_lock
from remote.fair_lock import FairLock, FrameGate
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


def take_elsewhere(lock: FairLock) -> threading.Thread:
    """A thread that takes the lock and ends."""

    def take() -> None:
        with lock:
            pass

    other = threading.Thread(target=take)
    other.start()
    return other


def test_others_wait_while_a_thread_draws_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_lock, "LONGEST_FRAME", 60.0)
    gate = FrameGate()
    monkeypatch.setattr(fair_lock, "frame_gate", gate)
    lock = FairLock()
    gate.close()
    other = take_elsewhere(lock)
    with lock:  # who draws does not wait
        other.join(0.05)
        assert other.is_alive()
    other.join(0.05)
    assert other.is_alive()
    gate.open()
    other.join()
    take_elsewhere(lock).join()


def test_a_frame_that_is_never_drawn_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_lock, "LONGEST_FRAME", 0.01)
    gate = FrameGate()
    monkeypatch.setattr(fair_lock, "frame_gate", gate)
    gate.close()
    take_elsewhere(FairLock()).join()
