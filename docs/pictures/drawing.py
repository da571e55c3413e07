"""Draws the cells of a terminal as a picture.

Letters come from a font. Blocks, braille and lines are drawn as rectangles that fill their cells:
fonts leave gaps between them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from pyte.screens import Char
from terminal import Cells

FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
FOREGROUND, BACKGROUND = "e4e6e8", "14171a"
COLOURS = {
    "black": "1e1e1e",
    "red": "cd3131",
    "green": "0dbc79",
    "brown": "e5e510",
    "blue": "2472c8",
    "magenta": "bc3fbc",
    "cyan": "11a8cd",
    "white": "e5e5e5",
    "brightblack": "666666",
    "brightred": "f14c4c",
    "brightgreen": "23d18b",
    "brightbrown": "f5f543",
    "brightblue": "3b8eea",
    "brightmagenta": "d670d6",
    "brightcyan": "29b8db",
    "brightwhite": "ffffff",
}
"""The sixteen colours that a program may name instead of mixing its own."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a part of a cell, as shares of its width and height."""

ARMS: dict[str, Box] = {
    "left": (0, 0.5, 0.5, 0.5),
    "right": (0.5, 0.5, 1, 0.5),
    "up": (0.5, 0, 0.5, 0.5),
    "down": (0.5, 0.5, 0.5, 1),
}
"""The lines from the middle of a cell to its edges."""
LINES = {
    **dict.fromkeys("─━╌┄┈═", ("left", "right")),
    **dict.fromkeys("│┃╎┆┊║", ("up", "down")),
    **dict.fromkeys("┌┏╭", ("right", "down")),
    **dict.fromkeys("┐┓╮", ("left", "down")),
    **dict.fromkeys("└┗╰", ("right", "up")),
    **dict.fromkeys("┘┛╯", ("left", "up")),
    **dict.fromkeys("├┣", ("up", "down", "right")),
    **dict.fromkeys("┤┫", ("up", "down", "left")),
    **dict.fromkeys("┬┳", ("left", "right", "down")),
    **dict.fromkeys("┴┻", ("left", "right", "up")),
    **dict.fromkeys("┼╋", ("left", "right", "up", "down")),
    **dict.fromkeys("╴╸", ("left",)),
    **dict.fromkeys("╶╺", ("right",)),
    **dict.fromkeys("╵╹", ("up",)),
    **dict.fromkeys("╷╻", ("down",)),
    "╼": ("left", "right"),
    "╾": ("left", "right"),
}
HEAVY = frozenset("━┃┏┓┗┛┣┫┳┻╋╸╺╹╻═║")
QUADRANTS = {"▖": 4, "▗": 8, "▘": 1, "▙": 13, "▚": 9, "▛": 7, "▜": 11, "▝": 2, "▞": 6, "▟": 14}
"""Their quarters as bits: left above, right above, left below, right below."""
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}
"""How much of the ink is mixed into the ground."""
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a braille character."""
EDGES: dict[str, Box] = {
    "▀": (0, 0, 1, 0.5),
    "▐": (0.5, 0, 1, 1),
    "▔": (0, 0, 1, 0.125),
    "▕": (0.875, 0, 1, 1),
}


class CellSize(NamedTuple):
    """Pixels of a cell, and the height of its letters."""

    width: int
    height: int
    letters: int


LARGE = CellSize(10, 20, 16)
SMALL = CellSize(8, 16, 13)


def draw_cells(cells: Cells, size: CellSize = LARGE) -> Image.Image:
    """Draw what a terminal shows."""
    columns, rows = len(cells.rows[0]), len(cells.rows)
    picture = Image.new("RGB", (columns * size.width, rows * size.height))
    canvas = ImageDraw.Draw(picture)
    for row_index, row in enumerate(cells.rows):
        for column, cell in enumerate(row):
            _draw_cell(canvas, column * size.width, row_index * size.height, cell, size)
    return picture


def _draw_cell(canvas: ImageDraw.ImageDraw, x: int, y: int, cell: Char, size: CellSize) -> None:
    if not cell.data:  # the right half of a wide character, which is drawn already
        return
    ink = _rgb(cell.fg, FOREGROUND)
    ground = _rgb(cell.bg, BACKGROUND)
    if cell.reverse:
        ink, ground = ground, ink
    canvas.rectangle((x, y, x + size.width - 1, y + size.height - 1), fill=ground)
    shade = SHADES.get(cell.data)
    if shade is not None:
        mixed = _mix(ink, ground, shade)
        canvas.rectangle((x, y, x + size.width - 1, y + size.height - 1), fill=mixed)
    elif boxes := find_boxes(cell.data):
        for left, top, right, bottom in boxes:
            _fill(canvas, x, y, (left, top, right, bottom), size, ink)
    elif arms := LINES.get(cell.data):
        for arm in arms:
            _draw_arm(canvas, x, y, arm, size, ink, 2 if cell.data in HEAVY else 1)
    elif cell.data != " ":
        _draw_letter(canvas, x, y, cell, size, ink)
    if cell.underscore:
        canvas.line((x, y + size.height - 2, x + size.width - 1, y + size.height - 2), fill=ink)
    if cell.strikethrough:
        middle = y + size.height // 2
        canvas.line((x, middle, x + size.width - 1, middle), fill=ink)


@cache
def find_boxes(character: str) -> tuple[Box, ...]:
    """Return the parts of a cell that a block or braille character fills; none of another one."""
    code = ord(character[0])
    if 0x2800 <= code <= 0x28FF:
        bits = code - 0x2800
        return tuple(
            (column / 2 + 0.12, row / 4 + 0.07, column / 2 + 0.38, row / 4 + 0.2)
            for bit, (column, row) in enumerate(DOTS)
            if bits >> bit & 1
        )
    if 0x2581 <= code <= 0x2588:
        return ((0, 1 - (code - 0x2580) / 8, 1, 1),)
    if 0x2589 <= code <= 0x258F:
        return ((0, 0, (0x2590 - code) / 8, 1),)
    if character in QUADRANTS:
        quarters = QUADRANTS[character]
        return tuple(
            (place % 2 / 2, place // 2 / 2, place % 2 / 2 + 0.5, place // 2 / 2 + 0.5)
            for place in range(4)
            if quarters >> place & 1
        )
    return (EDGES[character],) if character in EDGES else ()


def _fill(
    canvas: ImageDraw.ImageDraw, x: int, y: int, box: Box, size: CellSize, ink: tuple[int, ...]
) -> None:
    left, top, right, bottom = box
    first_column, end_column = round(left * size.width), round(right * size.width)
    first_row, end_row = round(top * size.height), round(bottom * size.height)
    # What is drawn is never thinner than a pixel.
    last_column = max(end_column - 1, first_column)
    last_row = max(end_row - 1, first_row)
    canvas.rectangle((x + first_column, y + first_row, x + last_column, y + last_row), fill=ink)


def _draw_arm(
    canvas: ImageDraw.ImageDraw,
    x: int,
    y: int,
    arm: str,
    size: CellSize,
    ink: tuple[int, ...],
    thickness: int,
) -> None:
    left, top, right, bottom = ARMS[arm]
    ends = (
        x + min(round(left * size.width), size.width - 1),
        y + min(round(top * size.height), size.height - 1),
        x + min(round(right * size.width), size.width - 1),
        y + min(round(bottom * size.height), size.height - 1),
    )
    canvas.line(ends, fill=ink, width=thickness)


def _draw_letter(
    canvas: ImageDraw.ImageDraw, x: int, y: int, cell: Char, size: CellSize, ink: tuple[int, ...]
) -> None:
    font = _font(size.letters, bold=cell.bold, italic=cell.italics)
    canvas.text((x, y + (size.height - size.letters) // 4), cell.data, font=font, fill=ink)


@cache
def _font(letters: int, *, bold: bool, italic: bool) -> ImageFont.FreeTypeFont:
    style = ("Bold" if bold else "") + ("Oblique" if italic else "")
    return ImageFont.truetype(FONTS / f"DejaVuSansMono{'-' if style else ''}{style}.ttf", letters)


@cache
def _rgb(colour: str, default: str) -> tuple[int, ...]:
    """Return the red, green and blue of a colour, as the terminal names it."""
    digits = default if colour == "default" else COLOURS.get(colour, colour)
    return tuple(bytes.fromhex(digits))


def _mix(ink: tuple[int, ...], ground: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(
        round(share * above + (1 - share) * below) for above, below in zip(ink, ground, strict=True)
    )
