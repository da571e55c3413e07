"""Random keys on live, ended, failed and attached runs, in terminals of random sizes: nothing
raises, and no key that a person could press by chance stops a run.

`RANKBOARD_FUZZ=10000` presses as many keys on each.
"""

from __future__ import annotations

import os
import random
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.kit.acted import ActedSession, cluster, make_plan
from tests.kit.dashboard import Stage
from training.job import Job
from tui.key_names import named

COUNT = int(os.environ.get("RANKBOARD_FUZZ", "150"))
"""Keys on each kind of run."""
LIFE = 400
"""Keys after which there is another dashboard."""
CONTROL = [f"ctrl+{letter}" for letter in "abcdefghijklmnopqrstuvwxy"]
MOVES = ["enter", "escape", "tab", "shift+tab", "up", "down", "left", "right", "home", "end"]
KEYS = [
    *(named(character) for character in string.printable.strip()),
    *MOVES * 3,
    *CONTROL,
    *("space", "pageup", "pagedown", "backspace", "delete", "shift+left", "shift+right"),
    *(f"f{number}" for number in range(1, 13)),
]
SIZES = [(1, 1), (39, 9), (40, 10), (60, 20), (80, 24), (120, 40), (200, 60), (300, 100)]


def live(stage: Stage) -> None:
    stage.session.start()
    stage.session.steps(1, 60)


def finished(stage: Stage) -> None:
    live(stage)
    stage.session.finish(60, 1)


def failed(stage: Stage) -> None:
    live(stage)
    stage.session.fail()


def attached(stage: Stage) -> None:
    """As with `rankboard attach` on a run that has ended."""
    session = ActedSession(make_plan(cluster(2, 2), Job()))
    stage.app.runs.launch = replace(stage.app.runs.launch, attached=session, at_once=False)
    stage.sessions.append(session)
    finished(stage)


Begin = Callable[[Stage], None]


@pytest.mark.parametrize("begin", [live, finished, failed, attached])
async def test_random_keys_never_raise(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(begin.__name__)
    pressed: list[str] = []
    while len(pressed) < COUNT:
        stage = Stage(hosts=2, slots=chance.choice([1, 2, 9]), runs_dir=tmp_path / "runs")
        if begin is attached:
            begin(stage)
        async with stage.app.run_test(size=(80, 24), notifications=True) as pilot:
            if begin is not attached:
                begin(stage)
            try:
                await play(stage, pilot, chance, pressed)
            except BaseException:
                print("the last keys were", *pressed[-30:])  # noqa: T201
                raise


async def play(stage: Stage, pilot: Pilot[None], chance: random.Random, pressed: list[str]) -> None:
    """Press keys until there are enough, or the dashboard has ended."""
    app, end = stage.app, min(COUNT, len(pressed) + LIFE)
    while len(pressed) < end and not app._exiting:
        if chance.random() < 0.02:
            await pilot.resize_terminal(*chance.choice(SIZES))
        if chance.random() < 0.05 and app.runs.live:
            step = max(rank.step for rank in stage.session.state.ranks)
            stage.session.steps(step + 1, step + 5)
        pressed.append(chance.choice(KEYS))
        await pilot.press(pressed[-1])
        if len(pressed) % 10 == 0:
            app.tick()
    for session in stage.sessions:
        if app.runs.live:
            session.close()
    if not app._exiting:
        app.exit()
