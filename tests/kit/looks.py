"""Read what is on a screen as text that a person can read in a diff: characters and styles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from rich.style import Style
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from tests.kit.wait import looks as looks_again
from tui.kit import palette

ATTRIBUTES = ("bold", "dim", "italic", "reverse", "underline")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Names of styles. If there are more of them, the names have two letters."""

Screen = list[list[tuple[str, str]]]
"""The lines of a screen: texts with their styles."""

# Textual has no public way to draw at once: only this module knows these private names.
PENDING = (
    *("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required"),
    *("_callbacks", "_dirty_widgets"),
)
"""Attributes that are true while a screen has something to draw."""
MOST_ROUNDS = 8
"""Rounds in which a screen draws all that follows from one change."""


async def read_screen(pilot: Pilot[None]) -> Screen:
    """Return what is on the screen once nothing changes any more."""
    for line in pilot.app.screen.query(Input):
        line.cursor_blink = False
    strips = await _settle(pilot)
    return [[(part.text, _describe(part.style)) for part in strip] for strip in strips]


def to_text(screen: Screen) -> list[str]:
    """Return the characters of each line."""
    return ["".join(text for text, _ in line).rstrip() for line in screen]


def to_ascii(screen: Screen) -> list[str]:
    """Return the characters of each line as a terminal without UTF-8 gets them."""
    return [line.encode("ascii", palette.ASCII).decode() for line in to_text(screen)]


def to_styles(screen: Screen) -> list[str]:
    """Return the styles of each line as `NAME CELLS` pairs, then what the names stand for.

    Lines in a row that are equal stand there once, with their numbers from 1 on.
    """
    names = _StyleNames()
    described = [_describe_line(line, names) for line in screen]
    lines = []
    numbered = enumerate(described, 1)
    for text, group in groupby(numbered, lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        last = f"-{numbers[-1]}" if len(numbers) > 1 else ""
        lines.append(f"{numbers[0]}{last} {text}")
    return lines + [f"{name} = {style}" for style, name in names.by_style.items()]


class _StyleNames:
    """Short names for styles, in the order in which they come."""

    def __init__(self) -> None:
        self.by_style: dict[str, str] = {}
        two_letters = map("".join, itertools.product(LETTERS, LETTERS))
        self._unused = itertools.chain(LETTERS, two_letters)

    def name(self, style: str) -> str:
        if style not in self.by_style:
            self.by_style[style] = next(self._unused)
        return self.by_style[style]


def _describe_line(line: Sequence[tuple[str, str]], names: _StyleNames) -> str:
    cells = [style for text, style in line for _ in text]
    return " ".join(f"{names.name(style)}{len(list(run))}" for style, run in groupby(cells))


@cache
def _describe(style: Style | None) -> str:
    """Return the colours of a style as they are on the screen, and its attributes."""
    if style is None:
        return "-"
    colours = [
        colour.name.lstrip("#") if colour else "-" for colour in (style.color, style.bgcolor)
    ]
    attributes = [name for name in ATTRIBUTES if getattr(style, name)]
    return " ".join(["/".join(colours), *attributes])


async def _settle(pilot: Pilot[None]) -> list[Strip]:
    """Draw until nothing changes any more. Return the lines of the screen."""
    before: list[Strip] = []
    for _ in looks_again("a screen that stays as it is"):
        await draw(pilot)
        strips = render_strips(pilot.app)
        if strips == before:
            return strips
        before = strips
    raise AssertionError


async def draw(pilot: Pilot[None]) -> None:
    """Draw what has changed, at once and not when a clock says so."""
    app: Any = pilot.app
    app.tick()
    await pilot.pause()
    for _ in range(MOST_ROUNDS):
        callback = _next_callback(app)
        if callback is None:
            return
        callback()
        await pilot.pause()


def _next_callback(app: Any) -> Callable[[], object] | None:
    """Return what a clock would call next to draw what has changed."""
    if app._resize_event:
        return app._check_resize  # type: ignore[no-any-return]
    for screen in (*app._background_screens, app.screen):
        pending = PENDING if screen is app.screen else PENDING[:-1]  # it draws itself in part
        if any(getattr(screen, name) for name in pending):
            return screen._on_timer_update  # type: ignore[no-any-return]
    return None


def render_strips(app: Any) -> list[Strip]:
    """Return the lines of the screen as Textual draws them."""
    return app.screen._compositor.render_strips()  # type: ignore[no-any-return]


def screen_text(app: Any) -> str:
    """Return the characters of the screen, over those of the screens that it leaves visible."""
    visible_screen_stack.set(app._background_screens)
    return "\n".join(strip.text for strip in render_strips(app))
