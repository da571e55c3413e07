"""The themes, and that the user's choice is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from textual.app import App, ComposeResult
from textual.color import Color
from textual.theme import Theme

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tui.kit import user_state as remembered
from tui.kit.inks import DARK as DARK_INKS
from tui.kit.inks import LIGHT as LIGHT_INKS
from tui.kit.themes import CONTRAST, DARK, LIGHT, THEMES, inks_of, use_themes
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.table import CELL_STYLES, TableCell, TableColumn
from tui.run.components.header_lines import TRACK_INK

GROUNDS = ("background", "surface", "panel")
TEXT_INKS = (
    *("text", "text-muted", "text-warning", "text-error", "text-success", "text-primary"),
    *("footer-key-foreground", "ink-test", "ink-data", "ink-compute", "ink-sync"),
)
COLOUR_BLINDNESS = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
}
"""What is seen of linear red, green and blue, by Machado, Oliveira and Fernandes (2009)."""


def each_theme(test):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)(test)


@each_theme
def test_text_is_legible_on_every_ground(theme: Theme) -> None:
    least = 7.0 if theme is CONTRAST else 4.5
    for ground in GROUNDS:
        for ink in TEXT_INKS:
            # Red, which may not look like amber or pink, has less in the theme of high contrast.
            enough = 6.0 if ink == "text-error" and theme is CONTRAST else least
            assert contrast_of(theme, ink, ground) >= enough, (ground, ink)
        # The numbers of ranks stand in tables and the log as text.
        on = colour_of(theme, ground)
        for ink in inks_of(theme).series:
            assert contrast(Color.parse(ink), on) >= 4.5, (ground, ink)


@each_theme
def test_rules_are_seen_on_every_ground(theme: Theme) -> None:
    for ink in ("ink-rule", "primary"):
        assert min(contrast_of(theme, ink, ground) for ground in GROUNDS) >= 3, ink


@each_theme
def test_the_part_of_a_bar_that_is_done_is_brighter_than_the_rest(theme: Theme) -> None:
    for ink in ("text-success", "text-warning"):
        rest = contrast_of(theme, TRACK_INK.removeprefix("$"), "panel")
        assert contrast_of(theme, ink, "panel") > 1.3 * rest, ink


@each_theme
def test_colour_blind_people_tell_inks_apart_that_stand_beside_each_other(theme: Theme) -> None:
    inks = inks_of(theme)
    for kind, matrix in COLOUR_BLINDNESS.items():
        for beside in (
            (inks.good, inks.warn, inks.bad),
            (inks.data, inks.compute, inks.sync),
            (inks.line, inks.test),
            (inks.line, inks.key),
        ):
            assert least_distance(beside, matrix) > 0.06, (kind, beside)
        # They have their numbers or letters, too.
        assert least_distance(inks.series, matrix) > 0.04, kind
    # Nothing else looks like a state.
    others = (inks.key, inks.test, inks.data, inks.compute, inks.sync, *inks.series)
    for state in (inks.good, inks.warn, inks.bad):
        for other in others:
            assert least_distance((state, other), COLOUR_BLINDNESS["none"]) > 0.05, other


@each_theme
async def test_every_ink_can_be_read_on_the_background_of_the_cursor(theme: Theme) -> None:
    cells = tuple(TableCell("text", style) for style in ("", *CELL_STYLES, inks_of(theme).bad))
    columns = [TableColumn("title", 6)] * len(cells)

    class TableApp(App[None]):
        def compose(self) -> ComposeResult:
            yield ChoiceTable(columns)

    app = TableApp()
    use_themes(app)
    app.theme = theme.name
    async with app.run_test(size=(100, 10)) as pilot:
        table = app.query_one(ChoiceTable)
        table.fill([cells])
        await pilot.pause()
        styles = [part.style for part in table.render_line(1) if part.text.strip()]
        assert len(styles) == len(cells)
        for style in styles:
            assert style
            assert style.color
            assert style.bgcolor
            colours = [Color.from_rich_color(part) for part in (style.color, style.bgcolor)]
            assert contrast(*colours) >= 4.5, style


async def test_themes_of_textual_have_inks_for_their_ground() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)):
        for name, inks in (("nord", DARK_INKS), ("textual-light", LIGHT_INKS)):
            stage.app.theme = name
            assert stage.app.get_css_variables()["ink-sync"] == inks.sync


def colour_of(theme: Theme, name: str, on: Color | None = None) -> Color:
    variables = theme.to_color_system().generate() | theme.variables
    text, _, share = variables[name].partition(" ")
    alpha = float(share.rstrip("%") or 100) / 100
    return on.get_contrast_text(alpha) if on and text == "auto" else Color.parse(text)


def contrast_of(theme: Theme, ink: str, ground: str) -> float:
    on = colour_of(theme, ground)
    colour = colour_of(theme, ink, on)
    return contrast(on.blend(colour, colour.a), on)


def least_distance(inks: Sequence[str], matrix: Sequence[Sequence[float]]) -> float:
    """How far the two of the inks that look most alike are from each other, in Oklab."""
    places = [oklab(np.array(matrix) @ linear(Color.parse(ink))) for ink in inks]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(places, 2))


def oklab(seen: NDArray[np.float64]) -> NDArray[np.float64]:
    cones = np.array(
        (
            (0.4122214708, 0.5363325363, 0.0514459929),
            (0.2119034982, 0.6806995451, 0.1073969566),
            (0.0883024619, 0.2817188376, 0.6299787005),
        )
    )
    mixed = np.array(
        (
            (0.2104542553, 0.7936177850, -0.0040720468),
            (1.9779984951, -2.4285922050, 0.4505937099),
            (0.0259040371, 0.7827717662, -0.8086757660),
        )
    )
    return np.asarray(mixed @ np.cbrt(cones @ seen.clip(0, 1)))


def contrast(one: Color, other: Color) -> float:
    """By WCAG: 1 for equal colours, 21 for black on white."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: Color) -> float:
    return float(np.array((0.2126, 0.7152, 0.0722)) @ linear(colour))


def linear(colour: Color) -> NDArray[np.float64]:
    return np.array(
        [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in colour.normalized
        ]
    )


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
