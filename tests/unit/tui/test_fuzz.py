"""Random keys in terminals of random sizes, and every size on every screen: nothing raises.

`RANKBOARD_FUZZ=10000` presses as many keys on each kind of dashboard.
"""

from __future__ import annotations

import os
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.kit.acted import until
from tests.kit.looks import screen_text
from tests.kit.played import KINDS, Played, compared, form, home, live, replayed, study
from tui.kit.dialogs import TooSmall, is_too_small
from tui.kit.key_names import parse_key

COUNT = int(os.environ.get("RANKBOARD_FUZZ", "30"))
"""Keys on each kind of dashboard."""
LIFE = 400
"""Keys after which there is another dashboard."""
MOVES = ["enter", "escape", "tab", "shift+tab", "up", "down", "left", "right", "home", "end"]
KEYS = [
    *(parse_key(character) for character in string.printable.strip()),
    *MOVES * 3,
    *(f"ctrl+{letter}" for letter in "abcdefghijklmnopqrstuvwxy"),
    *("space", "pageup", "pagedown", "backspace", "delete", "shift+left", "shift+right"),
    *(f"f{number}" for number in range(1, 13)),
]
SIZES = [(1, 1), (39, 9), (40, 10), (80, 24), (120, 40), (300, 100)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all that keys save goes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
async def test_random_keys_never_raise(kind: Callable[..., Played], folder: Path) -> None:
    chance = random.Random(kind.__name__)
    pressed: list[str] = []
    while len(pressed) < COUNT:
        here = folder / str(len(pressed))
        here.mkdir()
        played = kind(here, chance.choice([1, 2, 9]))
        try:
            async with played.app.run_test(size=(80, 24), notifications=True) as pilot:
                played.begin()
                await play(played, pilot, chance, pressed)
        except BaseException:
            print("the last keys:", *pressed[-30:])  # noqa: T201
            raise


async def play(
    played: Played, pilot: Pilot[None], chance: random.Random, pressed: list[str]
) -> None:
    """Press keys until there are enough, or the dashboard has ended."""
    app, enough = played.app, min(COUNT, len(pressed) + LIFE)
    while len(pressed) < enough and not app._exiting:
        if chance.random() < 0.02:
            await pilot.resize_terminal(*chance.choice(SIZES))
        if chance.random() < 0.05:
            played.go_on()
        pressed.append(chance.choice(KEYS))
        await pilot.press(pressed[-1])
        screen_text(app)
        if len(pressed) % 10 == 0:
            app.tick()
    played.end()
    if not app._exiting:
        app.exit()


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (live, ()),
        (live, ("3", "z")),
        (live, ("1", "enter")),
        (live, ("/",)),
        (live, ("s",)),
        (live, ("D",)),
        (live, ("!",)),
        (live, ("?",)),
        (live, ("q",)),
        (live, ("ctrl+p",)),
        (form, ()),
        (form, ("p",)),
        (home, ()),
        (replayed, ()),
        (compared, ()),
        (study, ()),
        (study, ("d",)),
    ],
)
async def test_every_size_of_every_screen(
    kind: Callable[..., Played], keys: tuple[str, ...], folder: Path
) -> None:
    chance = random.Random(repr(keys))
    played = kind(folder)
    odd = (chance.randrange(1, 300), chance.randrange(1, 100))
    async with played.app.run_test(size=(80, 24), notifications=True) as pilot:
        played.begin()
        played.go_on()
        await pilot.pause()
        await pilot.press(*map(parse_key, keys))
        screen = played.app.screen
        for size in [(1, 1), (40, 10), (300, 100), odd, (80, 24)]:
            await pilot.resize_terminal(*size)
            played.app.tick()
            await pilot.pause()
            small = is_too_small(played.app.size)
            await until(pilot, lambda small=small: isinstance(played.app.screen, TooSmall) is small)
            screen_text(played.app)
        assert played.app.screen is screen
        played.end()
