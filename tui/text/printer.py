"""Which printer shows a run without the dashboard: plain lines, JSON lines, or on a terminal a live
table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from remote.plan.dry_run import notes
from remote.run.state import RunState
from training.wire.events import Record
from tui.narrate import narrate
from tui.text import outcome
from tui.text.json import JsonPrinter
from tui.text.plain import PlainPrinter


class Printer(Protocol):
    """Shows a run. `gone` turns true when nobody reads stdout any more; from then on nothing is
    written to it."""

    gone: bool

    def batch(self, records: list[Record], state: RunState) -> None:
        """Show what has come: expanded records, already applied to the state."""

    def end(self, state: RunState) -> None:
        """Show what became of the run."""


@contextmanager
def printer(
    state: RunState,
    json: bool,
    folder: Path,
    *,
    before: Iterable[Record] = (),
    quiet: bool = False,
    verbose: bool = False,
) -> Iterator[Printer]:
    """The printer for where stdout leads, which tells what comes after this state.

    `folder` is the run's. `before`: expanded records that the state has already; as JSON they come
    first. `quiet`: not what ranks have printed. `verbose`: see `Narration`.
    """
    if not state.started:  # else one comes back to it
        narrate(outcome.opening(state))
    for note in notes(state.plan):
        narrate(note)
    told = state.log.count
    if json:
        to_program = JsonPrinter(sys.stdout, sys.stderr, told, folder=folder, verbose=verbose)
        to_program.replay(before, state.plan)
        yield to_program
    elif sys.stdout.isatty():
        from tui.text.live import live_printer

        with live_printer(told=told, quiet=quiet, verbose=verbose) as live:
            yield live
    else:
        yield PlainPrinter(sys.stdout, sys.stderr, told, quiet=quiet, verbose=verbose)
