"""What is to be drawn while a batch of updates is open is drawn once it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from tests.kit.idle import draw_screen
from tests.kit.looks import draw, screen_text
from tests.kit.wait import looks
from tui.app.dashboard import Dashboard
from tui.kit.no_live_runs import NoLiveRuns


class OneLine(Screen[None]):
    def compose(self) -> ComposeResult:
        yield Static("before", id="line")


class Small(Dashboard[NoLiveRuns]):
    def open(self) -> None:
        self.push_screen(OneLine())


@pytest.mark.parametrize("is_laid_out", [False, True])
async def test_a_frame_that_comes_while_a_batch_is_open_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, is_laid_out: bool
) -> None:
    frames: list[str] = []

    def write(app: Any, screen: Screen[Any], renderable: object) -> None:
        # As Textual does, which writes to no terminal in a test.
        if renderable is not None and not app._batch_count:
            frames.append(screen_text(app))

    monkeypatch.setattr(Screen, "_compositor_refresh", draw_screen)
    monkeypatch.setattr(App, "_display", write)
    app = Small(NoLiveRuns())
    async with app.run_test(size=(60, 20)) as pilot:
        await draw(pilot)
        frames.clear()
        with app.batch_update():
            app.screen.query_one("#line", Static).update("after", layout=False)
            await pilot.pause()
            if is_laid_out:
                # As after a change of the size of the terminal.
                app.screen._refresh_layout(app.size)
                await pilot.pause()
            assert not frames
        # Nothing else happens: a pause of the pilot would wake each widget.
        for _ in looks("a frame with the change"):
            if any("after" in frame for frame in frames):
                break
            await asyncio.sleep(0.005)
