"""Textual's pilot, without its waits by the clock and without work that no test sees.

It takes a program for idle that uses little CPU time for 20 ms: a wait at each key that a busy
machine makes longer, and that ends too early where another process has the CPU. Here a program is
idle when each of its widgets waits for a message.

A test that looks at a screen draws it then. What a screen would send to the terminal in between
goes nowhere in a test, so it is not made. Style sheets are parsed once for all programs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual import app, constants, pilot
from textual._context import active_app
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message_pump import MessagePump
from textual.screen import Screen

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


draw_screen = Screen._compositor_refresh


def draw_nothing(screen: Screen[object]) -> None:
    """Take what has changed on the upper screen as drawn, and tell it what has changed below."""
    if screen is not screen.app.screen:
        draw_screen(screen)
        return
    screen.app._update_mouse_over(screen)
    screen._dirty_widgets.clear()
    screen._compositor._dirty_regions.clear()


PARSED: dict[tuple[object, ...], list[RuleSet]] = {}
"""The rules of each style sheet that a program of this process has had, by all they follow from."""
parse_rules = Stylesheet._parse_rules


def parse_once(self: Stylesheet, *args: Any, **kwargs: Any) -> list[RuleSet]:
    """Parse a style sheet as Textual does, which has no memory that outlives a program."""
    key = (args, *kwargs.items(), *self._variables.items())
    if key not in PARSED:
        PARSED[key] = parse_rules(self, *args, **kwargs)
    return PARSED[key]


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests that drive the dashboard wait so, and nothing slides: a key would wait for each
    frame."""
    monkeypatch.setattr(constants, "TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr(Screen, "_compositor_refresh", draw_nothing)
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    for module in (app, pilot):
        monkeypatch.setattr(module, "wait_for_idle", wait_for_idle)
