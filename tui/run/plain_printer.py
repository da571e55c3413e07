"""Showing a run on a pipe or in a file: lines of text.

stdout is data (the ranks' lines, then the table), stderr is narration (what happens, and why it
failed).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from remote.run.run_state import RunState
from training.wire.events import Record
from tui.kit.narrate import narrate
from tui.kit.output import Output
from tui.kit.text_table import rule_lines
from tui.run import outcome
from tui.run.narration import Narration, RankLines
from tui.run.progress_lines import ProgressLines


class PlainPrinter(Output):
    """Prints the ranks' lines as they come, each with its rank; at the end the table of results."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        notes_told: int = 0,
        *,
        quiet: bool = False,
        verbose: bool = False,
    ) -> None:
        """`notes_told` and `verbose`: see `Narration`; `quiet`: see `printer`."""
        super().__init__(out)
        self._err = err
        self._quiet = quiet
        self._narration = Narration(notes_told, verbose=verbose)
        self._ranks = RankLines()
        self._progress = ProgressLines()

    def batch(self, records: list[Record], state: RunState) -> None:
        """Print the output of ranks among these records, and describe the others."""
        # A list, because whether there are any is asked below.
        chunks = () if self._quiet else [*self._ranks.chunks(records, state)]
        # stdout before stderr: the line that explains an output comes after it.
        self.write(chunks)
        self._tell(self._narration.lines(records, state))
        self._tell(self._progress.lines(state, printed=bool(chunks)))

    def end(self, state: RunState) -> None:
        """Print the cause of a failure, the table of a run that is over, and the verdict."""
        self.write(self._ranks.rest(state))
        self._explain(state)
        if outcome.has_results(state):
            table = rule_lines(*outcome.result_table(state))
            self.write(f"{line}\n" for line in (*table, *outcome.result_captions(state)))
        self._conclude(state)

    def _explain(self, state: RunState) -> None:
        """Print the rest of the narration, and why a run failed."""
        self._tell(self._narration.rest(state))
        self._err.writelines(f"{line}\n" for line in outcome.describe_cause(state))
        self._err.flush()

    def _conclude(self, state: RunState) -> None:
        """Print what is left to do, and how the run ended."""
        self._tell((*outcome.closing_advice(state), outcome.verdict_line(state)))

    def _tell(self, lines: Iterable[str]) -> None:
        narrate(*lines, file=self._err)
