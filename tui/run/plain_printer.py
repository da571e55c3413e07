"""Showing a run on a pipe or in a file: lines of text.

stdout is data (the ranks' lines, then the table), stderr is narration (what happens, and why it
failed).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from remote.run.run_state import RunState
from training.wire.events import Record
from tui.kit.narrate import narrate
from tui.kit.text_table import rule_lines
from tui.run import outcome
from tui.run.narration import Narration, RankLines
from tui.run.progress import ProgressLines
from tui.run.unfetched_files import describe_unfetched_files


class PlainPrinter:
    """Prints the ranks' lines as they come, each with its rank; at the end the table of results."""

    def __init__(
        self, out: TextIO, err: TextIO, told: int = 0, *, quiet: bool = False, verbose: bool = False
    ) -> None:
        """`told` and `verbose`: see `Narration`; `quiet`: see `printer`."""
        self.gone = False
        self._out = out
        self._err = err
        self._quiet = quiet
        self._narration = Narration(told, verbose=verbose)
        self._ranks = RankLines()
        self._progress = ProgressLines()

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print the output of ranks among these records, and describe the others."""
        chunks = () if self._quiet else [*self._ranks.chunks(records, state)]
        self._write_all(chunks)
        self._tell(self._narration.lines(records, state))
        self._tell(self._progress.lines(state, printed=bool(chunks)))
        self._flush()

    def end(self, state: RunState) -> None:
        """Print the cause of a failure, the table of a run that is over, and the verdict."""
        self._write_all(self._ranks.rest(state))
        self._explain(state)
        if outcome.has_results(state):
            table = rule_lines(*outcome.result_table(state))
            self._write("".join(line + "\n" for line in (*table, *outcome.result_captions(state))))
        self._flush()
        for line in (
            *outcome.describe_visibility(state),
            *describe_unfetched_files(state),
            outcome.verdict_line(state),
        ):
            narrate(line, file=self._err)
        self._err.flush()

    def _explain(self, state: RunState) -> None:
        """Print the rest of the narration, and why a run failed."""
        for line in self._narration.rest(state):
            narrate(line, file=self._err)
        for line in outcome.describe_cause(state):
            self._err.write(line + "\n")
        self._err.flush()

    def _tell(self, lines: Iterable[str]) -> None:
        for line in lines:
            narrate(line, file=self._err)
        self._err.flush()

    def _write_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._write(text)

    def _write(self, text: str) -> None:
        if not self.gone:
            try:
                self._out.write(text)
            except OSError:  # a reader that went away, a full disk, a terminal that is gone
                self._leave()

    def _flush(self) -> None:
        if not self.gone:
            try:
                self._out.flush()
            except OSError:  # a reader that went away, a full disk, a terminal that is gone
                self._leave()

    def _leave(self) -> None:
        """Stop writing: nobody reads."""
        self.gone = True
        if self._out is sys.stdout:
            to_nowhere(self._out)


def to_nowhere(stream: TextIO) -> None:
    """Send what is left in the buffer of a stream that nobody reads to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
