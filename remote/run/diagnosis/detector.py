"""What a part of a run has to have that finds by its steps what is wrong with it."""

from __future__ import annotations

from typing import Protocol

from remote.run.state.rank_state import Ranks, RankState
from training.wire.rank_events import ScriptMetrics, StepFinished

Report = StepFinished | ScriptMetrics
"""A step with its loss. Of a script also values that it prints outside of a step; its loss may be
among them."""


class Detector(Protocol):
    """Remembers steps, to find what no single state of the run shows. See `RunState.detectors`."""

    def take_report(self, report: Report, rank: RankState, when: float) -> list[str]:
        """Take in what a rank reports; `rank` has it already. Return remarks for the log."""

    def restart(self, ranks: Ranks, when: float) -> None:
        """Take in that other ranks run from now on: forget the steps, and end what was found.

        That is another attempt, or a script that has started workers, which are its ranks then.
        """
