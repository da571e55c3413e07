"""The table of actions: what follows from it, and that it is sound."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, groupby, product

import pytest
from textual.command import CommandList

from tests.kit.acted import until
from tests.kit.agents import ROOT
from tests.kit.dashboard import Stage
from tui.app.command_list import ActionPalette
from tui.app.help import HelpDialog
from tui.charts.chart import Chart
from tui.charts.panel import Charts
from tui.kit.actions import ACTIONS, WITHIN, Action, KeyPlace
from tui.kit.bindings import panels_of
from tui.kit.key_names import format_key, parse_key
from tui.kit.widgets.keys import KeyLine
from tui.log.panel import LogPanel
from tui.run.panels import PANELS


def test_a_name_stands_for_one_action() -> None:
    alike = {one for actions in ACTIONS.values() for one in actions}
    assert [name for name, many in Counter(one.name for one in alike).items() if many > 1] == []


@pytest.mark.parametrize("place", KeyPlace)
def test_a_key_does_one_thing_in_a_place(place: KeyPlace) -> None:
    keys = Counter(key for one in ACTIONS[place] for key in one.default_keys)
    assert [key for key, many in keys.items() if many > 1] == []


def test_every_panel_is_within_the_run() -> None:
    assert {panel.place for panel in PANELS} == set(WITHIN)


@pytest.mark.parametrize(
    ("key", "name", "back"),
    [
        ("?", "question_mark", "?"),
        ("+", "plus", "+"),
        ("S", "S", "S"),
        ("esc", "escape", "esc"),
        ("pgup", "pageup", "pgup"),
        ("ctrl+s", "ctrl+s", "ctrl+s"),
        ("ctrl+pagedown", "ctrl+pagedown", "ctrl+pgdn"),
        (",", "comma", ","),
        ("F5", "f5", "f5"),
    ],
)
def test_keys_are_named_as_textual_does_and_written_as_people_do(
    key: str, name: str, back: str
) -> None:
    assert parse_key(key) == name
    assert format_key(name) == back


@pytest.mark.parametrize("key", ["ctlr+x", "escpae", "ctrl+", "ab", ""])
def test_a_key_that_does_not_exist(key: str) -> None:
    with pytest.raises(ValueError, match="there is no key"):
        parse_key(key)


async def test_the_line_of_keys_is_that_of_the_focus() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        await until(pilot, lambda: "follow" in stage.text())
        assert "log y" not in stage.text()
        await pilot.press("3")
        await until(pilot, lambda: "log y" in stage.text())
        assert "Follow" not in foot(stage)
        assert foot(stage).startswith(" esc Back  q Stop  ? Help ")


async def test_a_key_of_another_panel_goes_to_that_panel() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("1", "l")
        chart = stage.screen.query(Chart).first()
        assert chart.options.log_y
        assert stage.screen.focused is chart
        await pilot.press("r")
        assert stage.screen.query_one(LogPanel) in focused_path(stage)
        assert stage.screen.query(Charts).first() not in focused_path(stage)


async def test_no_key_of_the_line_of_keys_is_cut_off() -> None:
    stage = Stage()
    async with stage.training(size=(57, 24)) as pilot:
        await until(pilot, lambda: "Stop" in foot(stage))
        for width in range(40, 60, 3):
            await pilot.resize_terminal(width, 24)
            line = stage.screen.query_one(KeyLine)
            await until(pilot, lambda width=width, line=line: 30 < line.region.right <= width)


async def test_escape_leaves_the_zoom_and_never_the_run() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        await pilot.press("3", "z")
        assert stage.screen.maximized
        await pilot.press("escape")
        assert not stage.screen.maximized
        await pilot.press("escape", "escape")
        assert stage.app.screen is stage.screen
        assert stage.session.stops == []


async def test_the_help_begins_with_the_keys_of_the_focus() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        for key, first, then in (("2", "log:", "run:"), ("3", "chart:", "run:")):
            await pilot.press(key, "question_mark")
            await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
            await until(pilot, lambda: f"│ {first}" in stage.text())  # noqa: B023
            assert stage.text().index(first) < stage.text().index(then)
            await pilot.press("question_mark")
            await until(pilot, lambda: stage.app.screen is stage.screen)


async def test_the_help_of_a_live_run_has_no_keys_of_replays_and_uses_the_width() -> None:
    stage = Stage()
    async with stage.training(size=(120, 60)) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: "search with a regular" in stage.text())
        assert "pause the replay" not in stage.text()
        # A place begins in the second column, beside keys of the first one.
        assert any(line.find("list of runs:") > 50 for line in stage.text().splitlines())


async def test_commands_are_listed_by_place_with_their_keys_and_charts_by_their_names() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        await pilot.press("2", "ctrl+p")
        await until(pilot, lambda: isinstance(stage.app.screen, ActionPalette))
        await until(pilot, lambda: re.search(r"Find +/ +log", stage.text()))
        places = re.findall(r" {2}(log|run|everywhere) *[▁-█▔]*$", stage.text(), re.MULTILINE)
        assert places == sorted(places, key=["log", "run", "everywhere"].index)
        await pilot.press(*"chart: cpu")
        await until(pilot, lambda: "Chart: " in stage.text())
        await pilot.press("enter")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        await until(
            pilot, lambda: any("CPU" in chart.title for chart in stage.screen.query(Charts))
        )


RUN_PLACES = (*panels_of(KeyPlace.RUN), KeyPlace.ROWS, KeyPlace.SLIDER)
PAGES_OVER_RUN = (
    *(KeyPlace.GRID, KeyPlace.RANK, KeyPlace.STACKS, KeyPlace.CHECKS, KeyPlace.COMPARE),
    *(KeyPlace.CHART_LIST, KeyPlace.CHECK_LIST),
)
"""What lies over a run."""
ONE_MEANING = (
    {"quit", "close"},
    {"back", "leave-log"},
    {"stacks", "stack", "ask-again"},
    {"charts", "chart-of-rank", "next-figure"},
    {"copy-run-command", "copy-remedy"},
    {"x-axis", "one-step"},
    {"charts-after", "page-after"},
    {"charts-before", "page-before"},
    {"export", "save-log"},
    {"play", "check-mark"},  # the space bar, which is for what is under the cursor everywhere
)
"""Actions that mean the same of what they are pressed on."""

OF_FORM = ("start", "leave-host-out")
"""Actions that the checks of hosts offer only over the launch form."""


@pytest.mark.parametrize("place", [*RUN_PLACES, *PAGES_OVER_RUN])
def test_a_key_of_a_run_means_the_same_in_each_of_its_panels_and_pages(place: KeyPlace) -> None:
    for action, other in product(ACTIONS[place], ACTIONS[KeyPlace.RUN]):
        if action.name in OF_FORM:
            continue
        shared_keys = keys_of(action) & keys_of(other)
        assert not shared_keys or are_alike(action, other), (shared_keys, action.name, other.name)


@pytest.mark.parametrize("places", [*combinations(RUN_PLACES, 2)])
def test_a_letter_means_the_same_in_each_panel_of_a_run(places: Sequence[KeyPlace]) -> None:
    for action, other in product(*(ACTIONS[place] for place in places)):
        # Keys that move, such as arrows, are for whatever has the focus.
        letters = {key for key in keys_of(action) & keys_of(other) if len(key) == 1}
        assert not letters or are_alike(action, other), (letters, action.name, other.name)


def keys_of(action: Action) -> set[str]:
    return set(action.keys.split(","))


def are_alike(action: Action, other: Action) -> bool:
    names = {action.name, other.name}
    return len(names) == 1 or any(names <= meaning for meaning in ONE_MEANING)


def foot(stage: Stage) -> str:
    """The line of keys."""
    return stage.text().splitlines()[-1]


def focused_path(stage: Stage) -> list[object]:
    assert stage.screen.focused
    return list(stage.screen.focused.ancestors_with_self)


KEY_PAGES = ("keys.md", "keys-panels.md")


def test_the_pages_on_keys_list_every_action() -> None:
    tables = list[tuple[str, list[str]]]()
    for name in KEY_PAGES:
        page = (ROOT / "docs" / "reference" / name).read_text()
        for section in page.split("\n## ")[1:]:
            heading, _, text = section.partition("\n")
            rows = re.findall(r"^\| `.*$", text, re.MULTILINE)
            if rows:
                tables.append((heading, rows))
    assert len(tables) == len(dict(tables)), "a table is on one page only"
    assert dict(tables) == {
        place.value.capitalize(): list(table_rows(actions))
        for place, actions in documented().items()
    }


def documented() -> dict[KeyPlace, list[Action]]:
    """The actions that the pages on keys list at each place: each action once."""
    listed: set[str] = set()
    by_place = dict[KeyPlace, list[Action]]()
    for place in KeyPlace:
        actions = [one for one in ACTIONS[place] if one.name not in listed]
        listed.update(one.name for one in actions)
        if actions:
            by_place[place] = actions
    return by_place


def table_rows(actions: Sequence[Action]) -> Iterator[str]:
    """The rows of these actions: those that are explained alike are one."""
    for text, alike in groupby(actions, lambda one: one.help):
        same = list(alike)
        keys = [f"`{format_key(key)}`" for one in same for key in one.default_keys]
        names = [f"`{one.name}`" for one in same]
        if same[1:]:
            yield f"| {names[0]} to {names[-1]} | {keys[0]} to {keys[-1]} | {text} |"
        else:
            yield f"| {names[0]} | {', '.join(keys)} | {text} |"


async def test_the_list_of_commands_has_one_command_to_zoom() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        listed = {command.title for command in stage.app.get_system_commands(stage.screen)}
        assert "Zoom" in listed
        assert not {"Maximize", "Minimize"} & listed
        await pilot.pause()


async def test_the_list_of_commands_takes_all_keys_where_there_is_no_room_for_it() -> None:
    stage = Stage()
    async with stage.training() as pilot:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(stage.app.screen, ActionPalette))
        listed = stage.app.screen.query_one(CommandList)
        for height in (10, 4, 1):
            await pilot.resize_terminal(80, height)
            await pilot.pause()
            assert isinstance(listed.screen, ActionPalette)
            listed.screen._action_command_list("page_down")
        await pilot.resize_terminal(80, 24)
        await pilot.press("escape")
