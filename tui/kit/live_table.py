"""A table at the bottom of a terminal, above which lines scroll."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

INTERVAL = 0.5
"""Seconds between two drawings of the table."""


class LiveTable:
    """Draws the table at most twice a second: a terminal is slow."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._drawn = 0.0

    def draw(self, make_picture: Callable[[ConsoleDimensions], RenderableType]) -> None:
        """Draw what `make_picture` makes for the size of the terminal, if it is time."""
        now = time.monotonic()
        if now - self._drawn >= INTERVAL:
            self._drawn = now
            self._live.update(make_picture(self._live.console.size), refresh=True)

    def renew(self) -> None:
        """Let the next drawing come at once."""
        self._drawn = 0.0

    def print(self, content: RenderableType, style: str = "") -> None:
        """Print a text, which is never markup, or a table above this one."""
        if isinstance(content, str):
            content = Text(content, style)
        # Texts wrap as the terminal wraps them, so that they can be copied whole.
        self._live.console.print(content, soft_wrap=isinstance(content, Text))

    def tell(self, lines: Iterable[str]) -> None:
        """Print lines for the user above the table."""
        for line in lines:
            self.print(f"rankboard: {line}", "dim")

    def stop(self) -> None:
        """Remove the table."""
        self._live.stop()


@contextmanager
def live_table(console: Console | None = None) -> Iterator[LiveTable]:
    """Keep a table at the bottom of the terminal."""
    console = console or Console(highlight=False, emoji=False, markup=False)
    # Drawn by us alone: a thread of rich's own would draw while records change the run.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveTable(live)


def bare_table(
    names: Iterable[str], left: Collection[str] = (), wrapping: Collection[str] = ()
) -> Table:
    """Make a table without rules. All columns but those of `left` stand at the right edge, and the
    names of those of `wrapping` may take several lines."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for column_name in names:
        table.add_column(
            column_name,
            justify="left" if column_name in left else "right",
            no_wrap=column_name not in wrapping,
            overflow="ellipsis",
        )
    return table
