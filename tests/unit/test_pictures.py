"""The script that makes the pictures of the dashboard: its terminal, its cells and its film."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from tests.kit.agents import ROOT

pytest.importorskip("pyte")
sys.path.insert(0, str(ROOT / "docs" / "pictures"))

from drawing import SMALL, draw_cells
from film import SHORTEST, Film, Frame, Scene
from terminal import Cells, Terminal

Start = Callable[[str], Terminal]
GROUND = (0x14, 0x17, 0x1A)
WIDTH, HEIGHT = SMALL.width, SMALL.height


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program of Python in a terminal of 12 columns and 3 rows, until the test ends."""
    with ExitStack() as stack:

        def start_program(code: str) -> Terminal:
            terminal = Terminal([sys.executable, "-c", code], tmp_path, (12, 3), {})
            stack.callback(terminal.close)
            return terminal

        yield start_program


def drawn(picture: Image.Image, column: int) -> tuple[int, int, int, int] | None:
    """The smallest box, in its pixels, around what is drawn in a cell of the first row."""
    left = column * WIDTH
    cell = picture.crop((left, 0, left + WIDTH, HEIGHT))
    return ImageChops.difference(cell, Image.new("RGB", cell.size, GROUND)).getbbox()


def test_blocks_braille_and_lines_fill_their_cells(start: Start) -> None:
    terminal = start("print('\\x1b[38;2;255;0;0m█▄▏⠁⣿─ x', end='!', flush=True); input()")
    terminal.wait_for("!")
    picture = draw_cells(terminal.cells, SMALL)
    assert picture.size == (12 * WIDTH, 3 * HEIGHT)
    assert drawn(picture, 0) == (0, 0, WIDTH, HEIGHT)
    assert drawn(picture, 1) == (0, HEIGHT // 2, WIDTH, HEIGHT)
    assert drawn(picture, 2) == (0, 0, 1, HEIGHT)
    left, top, right, bottom = drawn(picture, 3) or (9, 9, 9, 9)
    assert (right <= WIDTH // 2, bottom <= HEIGHT // 4) == (True, True)
    assert left < right
    assert top < bottom
    line = drawn(picture, 5)
    assert line is not None
    assert (line[0], line[2]) == (0, WIDTH)
    assert drawn(picture, 6) is None
    assert drawn(picture, 7) is not None
    assert picture.getpixel((1, 1)) == (255, 0, 0)


def test_a_program_that_ends_leaves_the_terminal_as_it_was(start: Start) -> None:
    terminal = start(
        "print('before'); print('\\x1b[?1049h\\x1b[Hinside', end='', flush=True); input();"
        "print('\\x1b[?1049l\\x1b[<uafter', end='', flush=True); input()"
    )
    terminal.wait_for("inside")
    assert "before" not in terminal.text
    terminal.type("\r")
    terminal.wait_for("after")
    assert "before" in terminal.text
    assert "inside" not in terminal.text


def test_a_scene_has_its_length_however_long_it_took(start: Start, tmp_path: Path) -> None:
    terminal = start("print('ready', flush=True); print(input() * 2, flush=True); input()")
    film = Film(terminal)
    film.film_until(lambda text: "ready" in text, 0.5)
    terminal.type("ab\r")
    film.film_until(lambda text: "abab" in text, 1.5)
    film.save(tmp_path / "film.webp")
    with closing(Image.open(tmp_path / "film.webp")) as saved:
        lasts = 0.0
        for number in range(saved.n_frames):
            saved.seek(number)
            saved.load()
            lasts += saved.info["duration"]
    assert lasts == pytest.approx(2000, abs=5)


def test_a_long_scene_shows_few_of_its_pictures_and_its_last() -> None:
    frames = [Frame(number / 10, Cells(())) for number in range(1000)]
    pictures = Scene(2.0, frames, took=100.0).shown()
    assert 5 <= len(pictures) <= 10
    assert pictures[-1][0] is frames[-1].cells
    assert sum(seconds for _, seconds in pictures) == pytest.approx(2.0)
    assert min(seconds for _, seconds in pictures) >= SHORTEST - 1e-9
