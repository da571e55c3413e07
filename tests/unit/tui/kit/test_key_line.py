"""The line of keys: what it shows, and the mouse over it."""

from __future__ import annotations

import pytest

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tui.app.help import HelpDialog
from tui.kit.dialogs import QuitDialog
from tui.kit.widgets.keys import KeyFooter, KeyLine


async def test_a_click_on_a_key_presses_it() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        await until(pilot, lambda: "q Quit  ? Help" in stage.text())
        await pilot.click(KeyLine, offset=(10, 0))
        await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
        await pilot.press("escape")
        await pilot.click(KeyLine, offset=(1, 0))
        await until(pilot, lambda: isinstance(stage.app.screen, QuitDialog))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("n", "a new run can be set up once this one has ended"),
        ("ctrl+pagedown", "no other run is open here"),
        ("H", "no other run is open here"),
    ],
)
async def test_a_key_that_does_nothing_here_says_why(key: str, why: str) -> None:
    stage = Stage()
    async with stage.shown(notifications=True) as pilot:
        await until(pilot, lambda: "q Quit  ? Help" in stage.text())
        await pilot.press("f", key)  # the first does something, and says nothing
        await until(pilot, lambda: [one.message for one in stage.app._notifications])
        (said,) = stage.app._notifications
        assert said.message.startswith(why)


async def test_keys_that_change_while_their_screen_goes_are_not_drawn() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        await until(pilot, lambda: "q Quit  ? Help" in stage.text())
        keys = stage.app.screen.query_one(KeyFooter)
        await keys.query(KeyLine).remove()
        keys._update_keys()
