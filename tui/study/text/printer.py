"""Chooses how a study is shown on this terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live

from remote.study.folder import RunEnded
from remote.study.runner import StudyRun, StudyRunner
from tui.run.plain_printer import to_nowhere
from tui.study.text.json_printer import JsonPrinter
from tui.study.text.line_printer import LinePrinter
from tui.study.text.live_printer import LivePrinter


class StudyPrinter(Protocol):
    """Shows a study."""

    def begin(self, run: StudyRun) -> None:
        """A run begins."""

    def batch(self, run: StudyRun) -> None:
        """The state of the run has changed, perhaps."""

    def ended(self, end: RunEnded) -> None:
        """A run has ended, or could not begin."""

    def tell(self, text: str) -> None:
        """Say something."""

    def end(self) -> None:
        """Show the results."""


class Guarded:
    """A printer that falls silent once nobody reads: `gone` is true then."""

    def __init__(self, printer: StudyPrinter) -> None:
        self._printer = printer
        self.gone = False

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.begin(run))

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.batch(run))

    def ended(self, end: RunEnded) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.ended(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.tell(text))

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._try(self._printer.end)

    def _try(self, act: Callable[[], None]) -> None:
        if self.gone:
            return
        try:
            act()
            sys.stdout.flush()
        except OSError:  # a reader that went away, a full disk, a terminal that is gone
            self.gone = True
            to_nowhere(sys.stdout)


@contextmanager
def printer(runner: StudyRunner, json: bool) -> Iterator[Guarded]:
    """Make the printer for this stdout."""
    if json:
        yield Guarded(JsonPrinter(runner))
    elif sys.stdout.isatty():
        console = Console(highlight=False, emoji=False, markup=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield Guarded(LivePrinter(runner, live))
    else:
        yield Guarded(LinePrinter(runner))
