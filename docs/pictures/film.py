"""A film of a terminal: what it shows over time, cut to a length that a person watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from drawing import SMALL, draw_cells
from terminal import PATIENCE, Cells, Terminal

SHORTEST = 0.2
"""Seconds for which a picture stays at the least."""
LOOK = 0.2
"""Seconds between two looks at the screen."""


@dataclass(frozen=True)
class Frame:
    """What a terminal showed from a moment on."""

    moment: float
    cells: Cells


@dataclass
class Scene:
    """A part of the film, which takes so many seconds however long it took."""

    seconds: float
    frames: list[Frame] = field(default_factory=list)
    took: float = 0.0

    def shown(self) -> list[tuple[Cells, float]]:
        """Return its pictures, each with the seconds that it stays: what came last, and of what
        came before as much as can be seen."""
        speed = self.seconds / max(self.took, SHORTEST)
        pictures: list[tuple[Cells, float]] = []
        end = self.seconds
        for frame in reversed(self.frames):
            start = min(frame.moment * speed, self.seconds - SHORTEST)
            if not pictures or end - start >= SHORTEST:
                pictures.append((frame.cells, end - start))
                end = start
        # The first one is there from the beginning.
        first_cells, seconds = pictures.pop()
        pictures.append((first_cells, seconds + end))
        return pictures[::-1]


class Film:
    """Films a terminal scene by scene."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.scenes: list[Scene] = []

    def film_until(self, is_over: Callable[[str], bool], seconds: float) -> None:
        """Film until the text of the screen is such. The scene takes `seconds` in the film."""
        scene = Scene(seconds)
        self.scenes.append(scene)
        began = time.monotonic()
        while True:
            self._terminal.read_for(LOOK)
            scene.took = time.monotonic() - began
            cells = self._terminal.cells
            if not scene.frames or cells != scene.frames[-1].cells:
                scene.frames.append(Frame(scene.took, cells))
            if is_over(cells.text):
                return
            if scene.took > PATIENCE:
                raise TimeoutError(f"the scene does not end:\n{cells.text}")

    def film_for(self, took: float, seconds: float) -> None:
        """Film for so long. The scene takes `seconds` in the film."""
        end = time.monotonic() + took
        self.film_until(lambda _: time.monotonic() >= end, seconds)

    def save(self, path: Path) -> None:
        """Save the film as an animated WebP."""
        shown = [picture for scene in self.scenes for picture in scene.shown()]
        pictures = [draw_cells(cells, SMALL) for cells, _ in shown]
        pictures[0].save(
            path,
            save_all=True,
            append_images=pictures[1:],
            duration=[round(1000 * seconds) for _, seconds in shown],
            loop=0,
            lossless=True,
            quality=100,
            method=4,
            minimize_size=True,
        )
