"""The themes, and that the user's choice is remembered."""

from __future__ import annotations

import pytest
from textual.color import Color

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tui.kit import user_state as remembered
from tui.kit.themes import CONTRAST, DARK, LIGHT, THEMES

INKS = ("text", "text-muted", "text-warning", "text-error", "text-success", "text-accent")


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_text_is_legible_on_every_ground(theme) -> None:  # type: ignore[no-untyped-def]
    colours = theme.to_color_system().generate()
    least = 7.0 if theme is CONTRAST else 4.5
    for ground in ("background", "surface", "panel"):
        on = Color.parse(colours[ground])
        for ink in INKS:
            name, _, share = colours[ink].partition(" ")
            alpha = float(share.rstrip("%") or 100) / 100
            colour = on.get_contrast_text(alpha) if name == "auto" else Color.parse(name)
            assert contrast(on.blend(colour, colour.a), on) >= least, (ground, ink)


def contrast(one: Color, other: Color) -> float:
    """By WCAG: 1 for equal colours, 21 for black on white."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: Color) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


async def test_the_last_theme_is_that_of_the_next_time() -> None:
    for chosen in (LIGHT, CONTRAST, DARK):
        stage = Stage()
        async with stage.app.run_test(size=(80, 24)) as pilot:
            await stage.train(pilot)
            await pilot.press("T")
            assert stage.app.theme == chosen.name
            stage.session.close()
            await stage.ended(pilot)
        assert Stage().app.theme == chosen.name


async def test_a_theme_of_the_list_of_commands_is_remembered_too() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot)
        stage.app.theme = "nord"
        await until(pilot, lambda: remembered.recall("theme") == "nord")
        stage.session.close()
        await stage.ended(pilot)
    assert Stage().app.theme == "nord"


@pytest.mark.parametrize("text", ["", "[]", '{"theme": "gone"}', '{"theme": 3}', "\x00"])
def test_what_cannot_be_read_is_not_remembered(text: str) -> None:
    remembered.state_file().parent.mkdir(parents=True)
    remembered.state_file().write_text(text)
    assert Stage().app.theme == DARK.name


def test_where_nothing_can_be_written_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    remembered.remember("theme", "nord")
    assert remembered.recall("theme") is None
