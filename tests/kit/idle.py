"""Textual's pilot, without its waits by the clock.

It takes a program for idle that uses little CPU time for 20 ms: a wait at each key that a busy
machine makes longer, and that ends too early where another process has the CPU. Here a program is
idle when each of its widgets waits for a message.
"""

from __future__ import annotations

import asyncio

import pytest
from textual import app, constants, pilot
from textual._context import active_app
from textual.message_pump import MessagePump

from tests.kit.wait import looks

TURNS = 5
"""Of the event loop, in which a message from another thread gets into its queue."""


async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Return once every message has been handled, and what follows from it."""
    running = active_app.get()
    for _ in looks("idle widgets"):
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if all(map(_waits, [running, *running._registry])):
            return


def _waits(pump: MessagePump) -> bool:
    queue = pump._message_queue
    return not pump.is_running or (queue.empty() and bool(queue.ready_event._waiters))  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests that drive the dashboard wait so, and nothing slides: a key would wait for each
    frame."""
    monkeypatch.setattr(constants, "TEXTUAL_ANIMATIONS", "none")
    for module in (app, pilot):
        monkeypatch.setattr(module, "wait_for_idle", wait_for_idle)
