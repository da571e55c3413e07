"""The line of keys: what it shows, and the mouse over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.content import Content
from textual.selection import Selection

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tui.app.help import HelpDialog
from tui.kit.dialogs import QuitDialog
from tui.kit.widgets.keys import KeyFooter, KeyLine
from tui.launch.screen import LaunchScreen
from tui.log.view import LogView
from tui.run.ranks_panel import RanksPanel
from tui.run.stacks_screen import StacksScreen


async def test_a_click_on_a_key_presses_it() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        await until(pilot, lambda: "q Stop  ? Help" in stage.text())
        foot = stage.text().splitlines()[-1]
        await pilot.click(KeyLine, offset=(foot.index("? Help"), 0))
        await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
        await pilot.press("escape")
        await pilot.click(KeyLine, offset=(foot.index("q Stop"), 0))
        await until(pilot, lambda: isinstance(stage.app.screen, QuitDialog))


async def test_keys_of_the_focused_panel_leave_out_facts_and_cut_none() -> None:
    stage = Stage(hosts=1, slots=4)
    async with stage.training(size=(80, 24)) as pilot:
        panel = stage.screen.query_one(RanksPanel)
        await pilot.press("1")

        def border() -> str:
            return stage.text().splitlines()[panel.region.y]

        await until(pilot, lambda: "enter open  o sort" in border())
        panel.caption("busiest first", ("a figure",) * 9, before_facts="  each: ")
        # The panel writes its own caption again at the next tick.
        caption = Content.from_markup(str(panel.border_title)).plain
        assert "¹ranks  busiest first  each: a figure" in caption
        assert "enter open  o sort  O columns" in caption
        assert 0 < caption.count("a figure") < 9
        assert "…" not in caption


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("n", "a new run can be set up once this one has ended"),
        ("ctrl+pagedown", "no other run is open here"),
        ("H", "no other run is open here"),
        ("escape", "there is nothing to go back to: q quits"),
        ("space", "only a replay plays"),
        ("Z", "Z does nothing here; ? lists the keys"),
    ],
)
async def test_a_key_that_does_nothing_here_says_why(key: str, why: str) -> None:
    stage = Stage()
    async with stage.shown(notifications=True) as pilot:
        await until(pilot, lambda: "q Stop  ? Help" in stage.text())
        await pilot.press("f", key)  # the first does something, and says nothing
        await until(pilot, lambda: [one.message for one in stage.app._notifications])
        (said,) = stage.app._notifications
        assert said.message.startswith(why)


async def test_a_refusal_is_said_once_however_often_the_key_is_pressed() -> None:
    stage = Stage()
    async with stage.shown(notifications=True) as pilot:
        await until(pilot, lambda: "q Stop  ? Help" in stage.text())
        await pilot.press("Z", "Z", "Z")
        await until(pilot, lambda: len(stage.app._notifications) > 0)
        assert len(stage.app._notifications) == 1


async def test_text_typed_where_no_prompt_came_runs_no_commands(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.training() as pilot:
        await pilot.press("s")
        await until(pilot, lambda: isinstance(stage.app.screen, StacksScreen))
        await pilot.press("slash", *"quit", "enter")  # nothing is searched on this page
        assert isinstance(stage.app.screen, StacksScreen)
        await pilot.press("q")  # a command again
        await until(pilot, lambda: stage.app.screen is stage.screen)


async def test_a_form_over_a_run_leads_back_to_the_run() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(stage.app.screen, LaunchScreen))
        await until(pilot, lambda: "esc Back" in stage.text())
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)


async def test_ctrl_c_copies_what_is_selected_and_quits_an_ended_run_the_second_time() -> None:
    stage = Stage()
    async with stage.training(size=(80, 30), notifications=True) as pilot:
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        log = stage.screen.query_one(LogView)
        stage.screen.selections = {log: Selection(None, None)}
        await pilot.press("ctrl+c")
        assert "epoch" in stage.app.clipboard
        stage.screen.clear_selection()
        await pilot.press("ctrl+c")
        assert stage.app.is_running
        assert "ctrl+c quits" in [one.message for one in stage.app._notifications][-1]
        await pilot.press("ctrl+c")
        await until(pilot, lambda: not stage.app.is_running)


async def test_keys_of_the_run_keep_their_places_and_those_of_a_panel_stand_in_its_border() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await until(pilot, lambda: "f follow" in stage.text())
        foot = stage.text().splitlines()[-1]
        assert all(
            key in foot for key in ("c Charts", "z Zoom", "s Stacks", "! Alerts", "D Doctor")
        )
        for panel_key, shown, hidden in (("3", "b band", "f follow"), ("2", "f follow", "b band")):
            await pilot.press(panel_key)
            await until(pilot, lambda shown=shown: shown in stage.text())
            assert hidden not in stage.text()
            assert stage.text().splitlines()[-1] == foot


async def test_keys_that_change_while_their_screen_goes_are_not_drawn() -> None:
    stage = Stage()
    async with stage.shown() as pilot:
        await until(pilot, lambda: "q Stop  ? Help" in stage.text())
        keys = stage.app.screen.query_one(KeyFooter)
        await keys.query(KeyLine).remove()
        keys._update_keys()
