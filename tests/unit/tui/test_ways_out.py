"""Every screen that keys lead to: esc leaves exactly one layer, and there is always a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from tests.kit.looks import screen_text
from tests.kit.played import Played, attached, compared, form, home, replayed, study
from tests.kit.wait import looks
from tui.app.dashboard import Dashboard
from tui.home.filter import Filter
from tui.kit.panel import Panel
from tui.kit.widgets.keys import KeyFooter

LEAVING = ("back", "close", "done", "quit", "quit-form", "leave", "interrupt", "home", "leave-log")
"""Actions that leave a layer or the dashboard."""
FINAL = (
    "delete-preset",
    "detach",
    "leave-now",
    "start",
    "next-run",
    "previous-run",
    "retry",
    "keep-layout",
    "take-checked",
    "reset-charts",
)
"""Actions that end, start or change runs, or that answer a dialog."""
IN_PLACE = (
    "screenshot",
    "next-theme",
    "star",
    "up",
    "down",
    "page-up",
    "page-down",
    "top",
    "bottom",
)
"""Actions that open nothing: some take long, and a run with a star is not deleted."""
SLOW = ("open", "open-best", "open-rank", "cell", "delete")
"""Actions whose screen comes after work in the background."""
STARTS = (home, attached, replayed, form, compared, study)
REACHED = {
    "home": "HomeScreen RunScreen RankScreen StacksScreen DoctorScreen CompareScreen LaunchScreen "
    "PresetsDialog PickSimilarRun ChartList ChartGrid TextPrompt TextDialog HelpDialog "
    "DeleteDialog",
    "attached": "RunScreen RankScreen ChartList ChartGrid TextPrompt HelpDialog",
    "replayed": "RunScreen RankScreen StacksScreen DoctorScreen ChartList PickSimilarRun",
    "form": "LaunchScreen PresetsDialog TextPrompt HelpDialog",
    "compared": "CompareScreen HelpDialog ActionPalette",
    "study": "StudyScreen CellScreen HelpDialog",
}
"""Screens that are among those that keys lead to from each start, at the least."""


def layers_of(app: Dashboard[Any]) -> list[str]:
    """What lies over each other: screens, and what esc leaves within the top one."""
    screen = app.screen
    layers = [type(one).__name__ for one in app.screen_stack]
    if screen.maximized is not None:
        layers.append("zoom")
    layers += [type(panel).__name__ for panel in screen.query(Panel) if panel.layered]
    if screen.has_class("-stack"):  # of the page of a rank
        layers.append("stack")
    has_prompt = isinstance(app.focused, Input) and not isinstance(screen, ModalScreen)
    if has_prompt or any(bar.is_open for bar in screen.query(Filter)):
        layers.append("prompt")
    escape = screen.active_bindings.get("escape")
    if layers[-1] != "prompt" and escape and escape.binding.id == "leave-log" and escape.enabled:
        layers.append("search")
    return layers


def keys_of(screen: Screen[Any]) -> Iterator[tuple[str, str]]:
    """The keys that work on a screen, each with the name of its action."""
    seen = set()
    for key, active in screen.active_bindings.items():
        name = active.binding.id or ""
        if (
            active.enabled
            and name
            and name not in (*LEAVING, *FINAL, *IN_PLACE)
            and name not in seen
        ):
            seen.add(name)
            yield key, name


def has_way_out(screen: Screen[Any]) -> bool:
    """Whether a key leaves the screen or, where it is the only one, the dashboard."""
    keys = ("escape", "q") if len(screen.app.screen_stack) == 2 else ("escape",)
    return any(active.enabled for key, active in screen.active_bindings.items() if key in keys)


class Walk:
    """Presses every key of every screen, and then esc."""

    def __init__(self, pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, Dashboard)
        self.app = pilot.app
        self.pilot = pilot
        self.visited: set[str] = set()
        self.faults: list[str] = []

    async def press(self, key: str) -> None:
        await self.pilot.press(key)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(2):
            self.app.tick()
            await self.pilot.pause()

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until the condition holds, or does not within this time."""
        try:
            for _ in looks("", seconds):
                if condition():
                    break
                await self.pilot.pause(0.01)
        except AssertionError:
            return
        await self.settle()

    async def visit(self, path: str) -> None:
        """Press all keys of the top screen, unless that was done before."""
        kind = type(self.app.screen).__name__
        if kind in self.visited:
            return
        self.visited.add(kind)
        before = layers_of(self.app)
        if not has_way_out(self.app.screen):
            self.faults.append(f"{path}: no key leaves {kind}")
        elif self.app.screen.query(KeyFooter):
            foot = screen_text(self.app).rstrip().splitlines()[-1]
            if "Back" not in foot and "Quit" not in foot:
                self.faults.append(f"{path}: {kind} shows no way out: {foot}")
        depth = len(self.app.screen_stack)
        tried: set[str] = set()
        while untried := [pair for pair in keys_of(self.app.screen) if pair[1] not in tried]:
            # Keys of the panel with the focus come first, before another one takes it.
            key, name = untried[0]
            tried.add(name)
            if isinstance(self.app.focused, Input) and len(key) == 1:
                continue
            if name == "compare":  # which takes two runs
                for mark_key in ("home", "space", "space"):
                    await self.press(mark_key)
            await self.press(key)
            if name in SLOW:
                await self.until(lambda: layers_of(self.app) != before, 2.0)
            after = layers_of(self.app)
            if after == before:
                continue
            step = f"{path} > {name} ({key})"
            if len(self.app.screen_stack) > depth:
                await self.visit(step)
                after_visit = layers_of(self.app)
                if after_visit != after:
                    self.faults.append(f"{step}: came back to {after_visit}, not to {after}")
            if not await self.leave(before, step):
                return

    async def leave(self, before: list[str], step: str) -> bool:
        """Press esc until all is as before, and return whether it is. Each leaves one layer."""
        while len(layers := layers_of(self.app)) > len(before):
            await self.press("escape")
            if len(layers_of(self.app)) != len(layers) - 1:
                self.faults.append(f"{step}, esc: {layers_of(self.app)} after {layers}")
                break
        if layers_of(self.app) != before:
            self.faults.append(f"{step}: ends at {layers_of(self.app)} and not at {before}")
        return layers_of(self.app) == before


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
async def test_esc_leaves_one_layer_of_every_screen_that_keys_lead_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., Played]
) -> None:
    monkeypatch.chdir(tmp_path)
    played = start(tmp_path)
    async with played.app.run_test(size=(80, 24)) as pilot:
        walk = Walk(pilot)
        await walk.settle()
        played.begin()
        played.go_on()
        await walk.until(lambda: "20261123-093000" in screen_text(played.app), 1.0)
        await walk.visit(start.__name__)
        played.end()
    assert not walk.faults, "\n".join(walk.faults)
    missing = set(REACHED[start.__name__].split()) - walk.visited
    assert not missing, f"not reached: {missing}"
