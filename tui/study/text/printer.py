"""Chooses how a study is shown on this terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from remote.study.folder import RunEnded
from remote.study.runner import StudyRun, StudyRunner
from tui.kit.live_table import live_table
from tui.kit.output import Output
from tui.study.text.json_printer import StudyJsonPrinter
from tui.study.text.line_printer import StudyLinePrinter
from tui.study.text.live_printer import StudyLivePrinter


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


class Guarded(Output):
    """A printer that falls silent once nobody reads: `gone` is true then."""

    def __init__(self, printer: StudyPrinter) -> None:
        super().__init__(sys.stdout)
        self._printer = printer

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
            # So that a pipe that is gone is noticed here, and not at the end of the process.
            sys.stdout.flush()
        except OSError:  # a reader that went away, a full disk, a terminal that is gone
            self.leave()


@contextmanager
def printer(runner: StudyRunner, json: bool) -> Iterator[Guarded]:
    """Make the printer for this stdout."""
    if json:
        yield Guarded(StudyJsonPrinter(runner))
    elif sys.stdout.isatty():
        with live_table() as table:
            yield Guarded(StudyLivePrinter(runner, table))
    else:
        yield Guarded(StudyLinePrinter(runner))
