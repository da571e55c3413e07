"""How screens look, as text that a person can read in a diff: the characters of a screen, and the
style of each in every theme; of a dialog, without what is behind it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import pytest
from rich.style import Style
from textual.filter import Monochrome
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from tests.kit.wait import looks as looks_again
from tui.kit import palette
from tui.kit.themes import CONTRAST, DARK, LIGHT

LOW, MIDDLE, HIGH = (80, 24), (120, 40), (200, 60)
THEMES = (DARK, LIGHT, CONTRAST)
WAYS = ("bold", "dim", "italic", "reverse", "underline")
NAMES = "abcdefghijklmnopqrstuvwxyz"
"""Of styles. Where there are more, two letters."""

Grid = list[list[tuple[str, str]]]
"""The lines of a screen: texts with their styles."""
PENDING = (
    *("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required"),
    *("_callbacks", "_dirty_widgets"),
)
"""What says that a screen has something to draw."""

ROUNDS = 8
"""In which a screen draws at most what follows from one change."""


async def looks(pilot: Pilot[None], *, large: bool) -> list[str]:
    """How a screen of 80x24 looks, in this and other sizes and modes. Without colours, only lines
    that differ are told. `large`: also on a large terminal."""
    dark, *others = [await _themed(pilot, theme.name) for theme in THEMES]
    for theme, other in zip(THEMES[1:], others, strict=True):
        assert _text(other) == _text(dark), f"{theme.name} shows another text than {DARK.name}"
    found = [*_titled("80x24", _text(dark))]
    found += _titled("80x24, styles: dark, light, high contrast", _styles(dark, *others))
    await pilot.resize_terminal(*MIDDLE)
    found += _titled("120x40", usual := _text(await _grid(pilot)))
    plain = _text(await _without_colours(pilot))
    found += _titled("120x40, without colours", _differing(usual, plain))
    if large:
        await pilot.resize_terminal(*HIGH)
        found += _titled("200x60", _text(await _grid(pilot)))
    return found


async def looks_in_ascii(pilot: Pilot[None]) -> list[str]:
    """How a screen of 80x24 looks on a terminal without UTF-8."""
    return [*_titled("80x24, ASCII", map(_ascii, _text(await _grid(pilot))))]


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"## {title}"
    yield from lines


async def settled(pilot: Pilot[None]) -> list[Strip]:
    """Draw until nothing changes any more. Returns the lines of the screen."""
    before: list[Strip] = []
    for _ in looks_again("a screen that stays as it is"):
        await drawn(pilot)
        found = pilot.app.screen._compositor.render_strips()
        if found == before:
            return found
        before = found
    raise AssertionError


async def drawn(pilot: Pilot[None]) -> None:
    """Draw what has changed, at once and not when a clock says so."""
    app: Any = pilot.app
    app.tick()
    await pilot.pause()
    for _ in range(ROUNDS):
        if not (due := _due(app)):
            return
        due()
        await pilot.pause()


def _due(app: Any) -> Callable[[], object] | None:
    """What a clock would call next to draw what has changed."""
    if app._resize_event:
        return app._check_resize  # type: ignore[no-any-return]
    for screen in (*app._background_screens, app.screen):
        pending = PENDING if screen is app.screen else PENDING[:-1]  # it draws itself in part
        if any(getattr(screen, name) for name in pending):
            return screen._on_timer_update  # type: ignore[no-any-return]
    return None


async def _grid(pilot: Pilot[None]) -> Grid:
    """What is on the screen."""
    for line in pilot.app.screen.query(Input):
        line.cursor_blink = False
    lines = await settled(pilot)
    return [[(part.text, _written(part.style)) for part in line] for line in lines]


@cache
def _written(style: Style | None) -> str:
    """The colours of a style, as they are on the screen, and its ways."""
    if style is None:
        return "-"
    inks = [colour.name.lstrip("#") if colour else "-" for colour in (style.color, style.bgcolor)]
    return " ".join(["/".join(inks), *(way for way in WAYS if getattr(style, way))])


def _text(grid: Grid) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in grid]


def _ascii(line: str) -> str:
    """What a terminal without UTF-8 gets of a line."""
    return line.encode("ascii", palette.ASCII).decode()


async def _themed(pilot: Pilot[None], theme: str) -> Grid:
    pilot.app.theme = theme
    return await _grid(pilot)


async def _without_colours(pilot: Pilot[None]) -> Grid:
    """The screen as with NO_COLOR, which an app reads when it begins. Another theme makes all
    widgets draw anew."""
    app = pilot.app
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "no_color", True)
        patch.setattr(app, "_filters", [Monochrome(), *app._filters])
        return await _themed(pilot, DARK.name)


def _differing(usual: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """The lines that differ, with their numbers from 1 on."""
    for number, (one, two) in enumerate(zip(usual, other, strict=True), 1):
        if one != two:
            yield f"{number} {two}"


def _styles(*grids: Grid) -> Iterator[str]:
    """The styles of each line: their names with how many cells they have; equal lines behind each
    other once. Then what the names stand for."""
    names = itertools.chain(NAMES, map("".join, itertools.product(NAMES, NAMES)))
    named: dict[tuple[str, ...], str] = {}
    lines = []
    for rows in zip(*grids, strict=True):
        cells = zip(*([style for text, style in row for _ in text] for row in rows), strict=True)
        runs = [(style, sum(1 for _ in run)) for style, run in groupby(cells)]
        lines.append(" ".join(f"{_named(style, named, names)}{count}" for style, count in runs))
    for line, numbered in groupby(enumerate(lines, 1), lambda one: one[1]):
        numbers = [number for number, _ in numbered]
        yield f"{numbers[0]}-{numbers[-1]} {line}" if len(numbers) > 1 else f"{numbers[0]} {line}"
    yield from (f"{name} = {', '.join(styles)}" for styles, name in named.items())


def _named(style: tuple[str, ...], named: dict[tuple[str, ...], str], names: Iterator[str]) -> str:
    if style not in named:
        named[style] = next(names)
    return named[style]
