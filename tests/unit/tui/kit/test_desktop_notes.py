"""Notes of the desktop: one sequence for the terminal at hand, none where it would be printed."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import pytest

from remote import events as launcher
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from training.wire.events import SESSION
from tui.kit import desktop_notes as desktop
from tui.kit.desktop_notes import note_sequence
from tui.run.components.header import RunHeader

PACE = re.compile(r"\d ms")
"""A step's time in the header."""


@pytest.mark.parametrize(
    ("environment", "sequence"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;rankboard: hello\a"),
        ({"TERM": "xterm-kitty"}, "\x1b]9;rankboard: hello\a"),
        ({"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;rankboard;hello\a"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7006"}, "\x1b]777;notify;rankboard;hello\a"),
        (
            {"TERM": "tmux-256color", "TMUX": "/tmp/tmux,1,0"},
            "\x1bPtmux;\x1b\x1b]9;rankboard: hello\a\x1b\\",
        ),
        ({"TERM": "linux"}, ""),
        ({"TERM": "dumb"}, ""),
        ({}, ""),
    ],
)
def test_the_terminal_decides(environment: dict[str, str], sequence: str) -> None:
    assert note_sequence("hello", environment) == sequence


def test_nothing_of_a_host_ends_the_sequence() -> None:
    sequence = note_sequence("a\x1b]0;title\a b\x9cc\nd" + "x" * 1000, {"TERM": "xterm"})
    assert sequence.startswith("\x1b]9;rankboard: a")
    assert sequence.index("\a") == len(sequence) - 1
    assert not any(sign in sequence[1:-1] for sign in "\x1b\x9c\n\a")
    assert len(sequence) < 300


async def test_each_alert_is_noted_once() -> None:
    stage, noted = Stage(), list[str]()

    def keep(_: Any, text: str) -> None:
        noted.append(text)

    with patch.object(desktop, "show_desktop_note", keep):
        async with stage.app.run_test(size=(80, 24)) as pilot:
            await stage.train(pilot, 20)
            stage.session.say(SESSION, launcher.Stalled((0, 1), 30.0))
            await until(pilot, lambda: bool(noted))
            stage.app.tick()
            stage.app.tick()
            assert noted == ["stalled: ranks 0 and 1 have made no step for 30 s"]
            assert not [*stage.app._notifications]  # the header says it
            stage.session.close()
            await stage.ended(pilot)


async def test_an_alert_is_shown_over_what_hides_the_header() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 20)
        await pilot.press("1", "z")
        await until(pilot, lambda: stage.app.screen.maximized is not None)
        stage.session.say(SESSION, launcher.Stalled((0, 1), 30.0))
        await until(pilot, lambda: [*stage.app._notifications])
        (note,) = stage.app._notifications
        assert note.message == "stalled: ranks 0 and 1 have made no step for 30 s"
        stage.session.close()
        await stage.ended(pilot)


async def test_while_ranks_have_come_to_a_halt_the_header_gives_no_pace() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot, 20)
        await until(pilot, lambda: PACE.search(header(stage)))
        stage.session.say(SESSION, launcher.Stalled((0, 1), 30.0))
        await until(pilot, lambda: "before the stall" in header(stage))
        await until(pilot, lambda: not PACE.search(header(stage)))
        assert "ETA" not in header(stage)
        stage.session.steps(21, 40)
        await until(pilot, lambda: PACE.search(header(stage)))
        stage.session.close()
        await stage.ended(pilot)


def header(stage: Stage) -> str:
    return stage.app.screen.query_one(RunHeader)._shown.plain
