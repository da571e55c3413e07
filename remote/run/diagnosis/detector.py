"""What a part of a run has to have that finds by its steps what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from remote.run.state.rank_state import Ranks, RankState
from training.wire.rank_events import ScriptMetrics, StepFinished
from training.wire.step_block import StepColumns

Report = StepFinished | ScriptMetrics
"""A step with its loss. Of a script also values that it prints outside of a step; its loss may be
among them."""


class Detector(Protocol):
    """Remembers steps, to find what no single state of the run shows. See `RunState.detectors`."""

    def take_report(self, report: Report, rank: RankState, when: float) -> list[str]:
        """Take in what a rank reports; `rank` has it already. Return remarks for the log."""

    def find_checks(self, steps: StepColumns, rank: RankState) -> Sequence[int]:
        """Return after which of these steps of a rank it has to see the rank as it is then."""

    def take_steps(
        self, steps: StepColumns, rank: RankState, times: Sequence[float]
    ) -> list[tuple[float, str]]:
        """Take in steps that a rank has taken in at once, up to the next of `find_checks` at the
        most. Return remarks, each with the time of its step."""

    def restart(self, ranks: Ranks, when: float) -> None:
        """Take in that other ranks run from now on: forget the steps, and end what was found.

        That is another attempt, or a script that has started workers, which are its ranks then.
        """
