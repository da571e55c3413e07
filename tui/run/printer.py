"""The choice of a printer: plain lines, JSON lines, or a live table on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from remote.plan.dry_run import notes
from remote.run.run_state import RunState
from training.wire.events import Record
from tui.kit.narrate import narrate
from tui.run import outcome
from tui.run.json_printer import JsonPrinter
from tui.run.plain_printer import PlainPrinter


class RunPrinter(Protocol):
    """Shows a run. `gone` is true once nobody reads stdout; then nothing more is written to it."""

    gone: bool

    def batch(self, records: list[Record], state: RunState) -> None:
        """Show expanded records, which were applied to the state."""

    def end(self, state: RunState) -> None:
        """Show how the run ended."""


@contextmanager
def run_printer(
    state: RunState,
    json: bool,
    folder: Path,
    *,
    before: Iterable[Record] = (),
    quiet: bool = False,
    verbose: bool = False,
    kinds: Collection[str] | None = None,
) -> Iterator[RunPrinter]:
    """Make the printer for this stdout; it shows what comes after this state.

    `folder` is that of the run. `before`: expanded records that the state includes, which JSON
    prints first. `quiet`: without the output of the ranks. `verbose`: see `Narration`. `kinds`: of
    the objects that JSON prints; None: all.
    """
    if not state.started:  # otherwise this attaches to a run
        narrate(outcome.opening_line(state))
    for note in notes(state.plan):
        narrate(note)
    notes_told = state.log.count
    if json:
        to_program = JsonPrinter(
            sys.stdout, sys.stderr, notes_told, folder=folder, verbose=verbose, kinds=kinds
        )
        to_program.replay(before, state.plan)
        yield to_program
    elif sys.stdout.isatty():
        # rich takes a while to import, and pipes do not need it.
        from tui.run.live_printer import live_printer

        with live_printer(notes_told=notes_told, quiet=quiet, verbose=verbose) as live:
            yield live
    else:
        yield PlainPrinter(sys.stdout, sys.stderr, notes_told, quiet=quiet, verbose=verbose)
